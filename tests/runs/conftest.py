"""Records that are a function of (attempt, step), tables as bits, and processes that die."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from surefoot.records import CATALOGUE, StepRecord, TrainSpec
from surefoot.runs import RunWriter

PLACES = {"grad_norm": ["a", "b", "c"], "update_rms": ["x", "y"]}

# Every kind of number that a comparison by value would miss or confuse.
ODD = np.array(
    [0x7FC00001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x3F800000],
    dtype=np.uint32,
).view(np.float32)


def make_record(attempt: int, step: int) -> StepRecord:
    """The row of (attempt, step): odd numbers, a counter, signals that are sampled."""
    seed = step * 1000 + attempt
    values: dict[str, float | int] = {
        "loss": float(np.float32(seed) / 7),
        "log_z": float(ODD[seed % len(ODD)]),
        "consumed_samples": seed * 2**33,
    }
    places: dict[str, Any] = {"grad_norm": np.arange(3, dtype=np.float32) + seed}
    if step % 3 == 0:
        values["validation_loss"] = float(seed)
        places["update_rms"] = ODD[[seed % len(ODD), (seed + 1) % len(ODD)]]
    return StepRecord(step=step, attempt=attempt, values=values, places=places)


def record_bits(record: StepRecord) -> dict[str, Any]:
    """A record as the table must hold it, floats as the bits of their float32."""
    found: dict[str, Any] = {}
    for name, value in record.values.items():
        signal_ = CATALOGUE.get(name)
        if signal_ is not None and signal_.integer:
            found[name] = int(value)
        else:
            found[name] = int(np.array([value], dtype=np.float32).view(np.uint32)[0])
    for name, values in record.places.items():
        bits = np.asarray(values, dtype=np.float32).view(np.uint32)
        found[name + "@places"] = tuple(bits.tolist())
    return found


def frame_bits(frame: Any) -> dict[tuple[int, int], dict[str, Any]]:
    """A table by (attempt, step); a null is absent, floats are the bits of their float32."""
    keys = list(zip(frame["attempt"].to_list(), frame["step"].to_list(), strict=True))
    assert len(set(keys)) == len(keys), "a row is there twice"
    found: dict[tuple[int, int], dict[str, Any]] = {key: {} for key in keys}
    for series in frame.drop("attempt", "step"):
        for key, valid, value in zip(keys, series.is_not_null(), _bits(series), strict=True):
            if valid:
                found[key][series.name] = value
    return found


def _bits(series: Any) -> list[Any]:
    if str(series.dtype).startswith("List"):
        empty = np.zeros(0, dtype=np.float32)
        lists = [empty if item is None else item.to_numpy() for item in series]
        return [tuple(item.view(np.uint32).tolist()) for item in lists]
    filled = series.fill_null(0).to_numpy()
    return (filled.view(np.uint32) if filled.dtype == np.float32 else filled).tolist()


class Killed(BaseException):
    """Stands for kill -9: not caught by any clean-up."""


_WRITES = ("write", "fsync", "replace", "rename", "unlink", "mkdir", "ftruncate", "pwrite")


@contextmanager
def killed_before(number: int, *, torn: bool = False) -> Iterator[SimpleNamespace]:
    """Raise Killed before the ``number``-th change of the file system (from 1; 0 = never).

    With ``torn``, a write is made to half of its bytes first. Afterwards every file that was opened
    meanwhile is closed, as it is when a process dies. ``done.operations`` lists the changes, with
    the paths of files that were opened meanwhile.
    """
    done = SimpleNamespace(operations=[], opened={})
    identities: dict[int, Any] = {}
    real = {name: getattr(os, name) for name in (*_WRITES, "open")}

    def change(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            named = [done.opened.get(a, a) if isinstance(a, int) else str(a) for a in args[:2]]
            done.operations.append((name, *named))
            if len(done.operations) == number:
                if torn and name == "write":
                    real["write"](args[0], bytes(args[1])[: len(args[1]) // 2])
                raise Killed
            return real[name](*args, **kwargs)

        return call

    def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        fd = real["open"](path, flags, *args, **kwargs)
        done.opened[fd] = str(path)
        identities[fd] = _identity(fd)
        return int(fd)

    for name in _WRITES:
        setattr(os, name, change(name))
    os.open = opening  # type: ignore[assignment]
    try:
        with suppress(Killed):
            yield done
    finally:
        for name, function in real.items():
            setattr(os, name, function)
        if number and len(done.operations) >= number:
            # A number that was closed meanwhile may be another library's file by now.
            for fd, identity in identities.items():
                if _identity(fd) == identity:
                    os.close(fd)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., RunWriter]:
    """Makes the writer of a new run; ``steps`` rows of attempt 0 are appended."""

    def call(name: str = "run", steps: int = 0, **kwargs: Any) -> RunWriter:
        writer = RunWriter.create(
            tmp_path / name, TrainSpec(name=name), {"python": "3.11"}, PLACES, **kwargs
        )
        for step in range(1, steps + 1):
            writer.append(make_record(0, step))
        return writer

    return call


@pytest.fixture(scope="session")
def rows() -> SimpleNamespace:
    """The helpers of this folder, by name."""
    return SimpleNamespace(
        PLACES=PLACES,
        ODD=ODD,
        make=make_record,
        record_bits=record_bits,
        frame_bits=frame_bits,
        expected=expected_bits,
        killed_before=killed_before,
        die=die,
        child_environment=child_environment,
    )


def expected_bits(keys: Any) -> dict[tuple[int, int], dict[str, Any]]:
    """What a table with the rows of these (attempt, step) holds."""
    return {key: record_bits(make_record(*key)) for key in keys}


def die(writer: RunWriter) -> None:
    """End a writer as kill -9 does: nothing is flushed, the lock is free."""
    files = ((writer._journal._fd, writer._journal.path), (writer.ledger._fd, writer.ledger.path))
    for fd, path in files:
        found = path.stat()
        if _identity(fd) == (found.st_dev, found.st_ino):
            os.close(fd)
    writer._lock.release()


def child_environment(crash: str | None = None) -> dict[str, str]:
    """The environment of a process that can import this file as ``conftest``."""
    variables = {k: v for k, v in os.environ.items() if k != "SUREFOOT_CRASH_AT"}
    known = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), *([known] if known else [])]
    )
    if crash is not None:
        variables["SUREFOOT_CRASH_AT"] = crash
    return variables


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python code in a process of its own; ``crash`` is what SUREFOOT_CRASH_AT is set to."""

    def call(
        code: str, *arguments: str, crash: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            env=child_environment(crash),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares the disk where what outlives a power cut is not the question."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def assert_killed() -> Callable[..., None]:
    """Asserts that a child was killed at a crash point, and nowhere else."""

    def check(done: subprocess.CompletedProcess[str], point: str) -> None:
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert done.stderr.count(f"surefoot: crash point {point} reached") == 1

    return check


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets ``os.write`` take ``allowed`` more bytes and then say that the disk is full."""
    real = os.write

    def start(allowed: int = 0, number: int = errno.ENOSPC) -> None:
        left = [allowed]

        def write(fd: int, data: Any) -> int:
            if left[0] <= 0:
                raise OSError(number, os.strerror(number))
            count = real(fd, bytes(data)[: left[0]])
            left[0] -= count
            return count

        monkeypatch.setattr(os, "write", write)

    start.stop = lambda: monkeypatch.setattr(os, "write", real)  # type: ignore[attr-defined]
    return start

"""The ledger: ``events.jsonl``, one event a line, on the disk before ``append`` returns.

A line counts once its newline is there. The torn end that a kill leaves is cut off when the ledger
is next opened, and that is an event too.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from surefoot.records import Event, Finding, from_json, to_json
from surefoot.runs.durable import storage_errors, write_all, write_atomic
from surefoot.runs.faults import armed, crash_point

NAME = "events.jsonl"

LAST_ATTEMPT = 2**31 - 2
"""The largest number of an attempt: rows hold it in 32 bits, and the next one must fit too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContents:
    """What could be read of a ledger.

    Attributes:
        events: the good lines, in order.
        problems: what could not be read, a sentence each.
        good_bytes: offset of the torn end; the size if there is none.
        torn: the bytes of the torn end.
    """

    events: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()
    good_bytes: int = 0
    torn: bytes = b""


class Ledger:
    """A ledger open for appending; one of :class:`surefoot.protocols.Ledger`.

    Args:
        path: created if missing.
        attempt: the attempt that each event is of.
    """

    def __init__(self, path: Path, attempt: int) -> None:
        self.path = path
        self.attempt = attempt
        with storage_errors(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._torn_at: int | None = None

    def append(self, kind: str, *, step: int | None = None, **data: Any) -> None:
        """Write one event and flush it to the disk before returning.

        Raises:
            StorageError: if the disk is full; the ledger is as it was before.
            TypeError: if ``data`` holds what cannot be JSON.
        """
        line = encode(Event(kind=kind, step=step, attempt=self.attempt, time=now(), data=data))
        with storage_errors(self.path):
            self._cut()
            start = os.fstat(self._fd).st_size
            try:
                self._write(line)
                os.fsync(self._fd)
            except OSError:
                # Cut off what was written of it; if even that fails, before the next append.
                self._torn_at = start
                with suppress(OSError):
                    self._cut()
                raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _cut(self) -> None:
        if self._torn_at is not None:
            os.ftruncate(self._fd, self._torn_at)
            self._torn_at = None

    def _write(self, line: bytes) -> None:
        if not armed("ledger.write"):
            return write_all(self._fd, line)
        # A kill in the middle of a line: what a power cut can leave, and a test wants to see.
        half = len(line) // 2
        write_all(self._fd, line[:half])
        crash_point("ledger.write")
        write_all(self._fd, line[half:])


def now() -> str:
    """This instant, ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def encode(event: Event) -> bytes:
    """One line of strict JSON."""
    return json.dumps(to_json(event), allow_nan=False, ensure_ascii=True).encode() + b"\n"


def repair(path: Path, attempt: int) -> None:
    """Cut off a torn end, and record that in the same instant."""
    contents = read_ledger(path)
    if not contents.torn:
        return
    event = Event(
        kind="repaired",
        attempt=attempt,
        time=now(),
        data={
            "file": path.name,
            "at_byte": contents.good_bytes,
            "bytes": len(contents.torn),
            "cut_off": contents.torn[:500].decode(errors="backslashreplace"),
        },
    )
    good = path.read_bytes()[: contents.good_bytes]
    write_atomic(path, good + encode(event))


def read_ledger(path: Path) -> LedgerContents:
    """Every good line of a ledger; bad ones are skipped and reported."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return LedgerContents(problems=(f"{path.name} cannot be read: {error.strerror}",))
    good = data.rfind(b"\n") + 1
    events: list[Event] = []
    problems: list[str] = []
    for number, line in enumerate(data[:good].split(b"\n")[:-1], start=1):
        try:
            events.append(_event(line))
        except (ValueError, RecursionError) as error:
            problems.append(f"{path.name} line {number} is no event ({error}); skipped")
    if good < len(data):
        problems.append(
            f"{path.name} ends in a torn line: {len(data) - good} bytes at byte {good}; skipped"
        )
    return LedgerContents(
        events=tuple(events), problems=tuple(problems), good_bytes=good, torn=data[good:]
    )


def misread_findings(events: Sequence[Event]) -> tuple[str, ...]:
    """The ``finding`` events that hold no finding, a sentence each; they stay in the ledger."""
    problems = []
    for event in events:
        if event.kind == "finding" and "finding" in event.data:
            try:
                from_json(Finding, event.data["finding"])
            except (ValueError, RecursionError) as error:
                where = "" if event.step is None else f" of step {event.step}"
                problems.append(f"{NAME}: the event{where} holds no finding ({error}); left out")
    return tuple(problems)


def last_attempt(events: Sequence[Event]) -> int:
    """The newest attempt that the ledger knows; 0 if it knows none."""
    return max((event.attempt for event in events), default=0)


def _event(line: bytes) -> Event:
    event = from_json(Event, _strict(line))
    if not 0 <= event.attempt <= LAST_ATTEMPT:
        raise ValueError(f"no run has an attempt {event.attempt}")
    return event


def _strict(line: bytes) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    return json.loads(line, parse_constant=refuse)

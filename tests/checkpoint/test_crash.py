"""Killed at any instant: what was committed stays, what was not leaves no trace."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from surefoot.checkpoint import CheckpointStore

SAVE_THREE = """
import sys, torch
from pathlib import Path
from surefoot.checkpoint import CheckpointStore
store = CheckpointStore(Path(sys.argv[1]), keep_newest=2, interval=10)
for step in (10, 20, 30):
    store.save(step, {"w": torch.full((300_000,), float(step)), "b": torch.zeros(2)}, {"at": step})
print("done")
"""


def load(store, step):
    into = {"w": torch.zeros(300_000), "b": torch.ones(2)}
    assert store.load(step, into) == {"at": step}
    assert into["w"].eq(step).all()


@pytest.mark.parametrize(
    ("point", "newest"),
    [
        ("checkpoint.write", 20),
        ("checkpoint.before_rename", 20),
        ("checkpoint.after_rename", 30),
    ],
)
def test_killed_at_a_crash_point(root, run_python, point, newest):
    killed = run_python(SAVE_THREE, root, crash_at=f"{point}:3")
    assert killed.returncode == -signal.SIGKILL
    assert f"surefoot: crash point {point} reached" in killed.stderr
    assert "done" not in killed.stdout
    leftover = root / ".step-000000030.tmp"
    if point == "checkpoint.write":
        written = (leftover / "__0_0.distcp").stat().st_size
        whole = (root / "step-000000020" / "__0_0.distcp").stat().st_size
        assert whole / 4 < written < whole * 3 / 4  # in the middle of the data
    assert leftover.exists() == (newest == 20)

    store = CheckpointStore(root, keep_newest=2, interval=10)
    assert store.latest() == store.resumable(pytest.fail) == newest
    load(store, newest)
    store.save(30, {"w": torch.full((300_000,), 30.0), "b": torch.zeros(2)}, {"at": 30})
    load(store, 30)
    assert {path.name for path in root.iterdir() if path.name.startswith(".")} == set()


class Crash(BaseException):
    """The process is gone: no handler of it has any further effect."""


@pytest.fixture
def crash_at_mutation(monkeypatch):
    """Stop before the n-th change to a directory; before the next one means after this one."""

    def arm(turn):
        seen = {"calls": 0, "dead": False}

        def wrap(original):
            def mutation(*args, **kwargs):
                if seen["dead"]:
                    raise Crash
                seen["calls"] += 1
                if seen["calls"] != turn:
                    return original(*args, **kwargs)
                seen["dead"] = True
                raise Crash

            return mutation

        patch = monkeypatch.context()
        context = patch.__enter__()
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
            context.setattr(os, name, wrap(getattr(os, name)))
        return lambda: patch.__exit__(None, None, None)

    return arm


def state(step):
    return {"w": torch.full((5,), float(step))}, {"at": step}


OPERATIONS = {
    "save": lambda store: store.save(60, *state(60)),
    "save again": lambda store: store.save(50, *state(50)),
    "save quarantined": lambda store: store.save(55, *state(55), quarantine="signal"),
    "quarantine": lambda store: store.quarantine(40, "incident"),
    "confirm": lambda store: store.confirm(50),
    "abandon": lambda store: store.abandon_after(30),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_stopped_at_every_change_to_the_folder(tmp_path, crash_at_mutation, name):
    original = tmp_path / "original"
    store = CheckpointStore(original, keep_newest=3, interval=10)
    for step in (10, 20, 30, 40, 50):
        store.save(step, *state(step))
    store.save(45, *state(45), quarantine="signal")
    store.confirm(30)
    operation = OPERATIONS[name]
    turn = 0
    while True:
        turn += 1
        root = tmp_path / f"turn{turn}"
        shutil.copytree(original, root)
        disarm = crash_at_mutation(turn)
        try:
            operation(CheckpointStore(root, keep_newest=3, interval=10))
        except Crash:
            crashed = True
        else:
            crashed = False
        finally:
            disarm()
        restarted = CheckpointStore(root, keep_newest=3, interval=10)
        for info in restarted.infos():
            into = {"w": torch.zeros(5)}
            assert restarted.load(info.step, into) == {"at": info.step}
            assert into["w"].eq(info.step).all()
        newest = {"save": 60, "save quarantined": 55, "quarantine": 40, "abandon": 30}
        before = restarted.resumable()
        assert before in (50, newest.get(name)) or (name == "abandon" and before in (40, 45))
        assert restarted.newest_confirmed() >= 30
        restarted.clean()
        assert not [path for path in root.iterdir() if path.name.startswith(".")], turn
        assert restarted.resumable() == before
        operation(restarted)
        assert restarted.resumable(pytest.fail) is not None
        shutil.rmtree(root)
        if not crashed:
            break
    assert turn > 2 or name == "confirm"


def test_everything_is_on_the_disk_before_its_name_is(store, root, monkeypatch):
    """A power cut keeps what was flushed: files, then the folder, the rename, then its parent."""
    log = []
    fsync, rename = os.fsync, os.rename

    def logged_fsync(fd):
        log.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def logged_rename(source, target, **kwargs):
        if os.path.isdir(source):
            log.append(("rename", str(target)))
        rename(source, target, **kwargs)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "rename", logged_rename)
    store.save(10, {"w": torch.ones(3)}, {})
    folder = root / "step-000000010"
    writing = root / ".step-000000010.tmp"
    at = log.index(("rename", str(folder)))
    flushed = {path.split("/")[-1] for what, path in log[:at] if path.startswith(str(writing))}
    assert {"__0_0.distcp", ".metadata.tmp", "state.json.tmp", "manifest.json.tmp"} <= flushed
    assert log[at - 1] == ("fsync", str(writing))  # its entries, the manifest's among them
    assert log[at + 1] == ("fsync", str(root))
    manifest = log.index(("fsync", str(writing / "manifest.json.tmp")))
    data = log.index(("fsync", str(writing / "__0_0.distcp")))
    assert data < manifest


@pytest.mark.slow
def test_killed_at_random_times(root):
    rng = random.Random(0)
    script = """
import sys, torch
from pathlib import Path
from surefoot.checkpoint import CheckpointStore
store = CheckpointStore(Path(sys.argv[1]), keep_newest=2, interval=10)
step = store.resumable() or 0
if step:
    into = {"w": torch.zeros(300_000)}
    assert store.load(step, into) == {"at": step}
    assert into["w"].eq(step).all()
print(step, flush=True)
while True:
    step += 10
    store.save(step, {"w": torch.full((300_000,), float(step))}, {"at": step})
    store.confirm(step - 20)
    print(step, flush=True)
"""
    known = 0
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
        rest, errors = process.communicate()
        assert first, errors
        # Never behind what was said to be saved, at most one further: saved but not yet said.
        assert known <= int(first) <= known + 10
        # A line torn by the kill cannot be: lines this short are written at once.
        known = int((first + rest).split()[-1])
    assert known > 0

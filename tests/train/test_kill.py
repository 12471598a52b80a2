"""kill -9 at every crash point, then --resume: bit for bit what an uninterrupted run gives."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from surefoot import runs
from surefoot.checkpoint import CheckpointStore
from surefoot.recipe import load
from surefoot.records import is_volatile
from surefoot.train import create, join, train

LAST = 12

# The n-th hit of each point. Saves are at steps 0, 4, 8 and 12, each after a segment.
POINTS = [
    "step:7",
    "segment.before_rename:2",
    "segment.after_rename:2",
    "checkpoint.write:1",
    "checkpoint.before_rename:1",
    "checkpoint.before_rename:3",
    "checkpoint.after_rename:3",
    "ledger.write:4",
    "merge:1",
]


def signals(folder: Path) -> pl.DataFrame:
    """The winning history, without what depends on the clock or the number of starts."""
    frame = runs.open(folder).signals
    return frame.select(sorted(c for c in frame.columns if c != "attempt" and not is_volatile(c)))


def final_state(folder: Path) -> tuple[dict[str, torch.Tensor], dict]:
    """Every tensor of the last checkpoint, and the JSON state beside them."""
    store = CheckpointStore(folder / "checkpoints")
    found = {
        name: torch.zeros(info.shape, dtype=info.dtype)
        for name, info in store.tensors(LAST).items()
    }
    state = store.load(LAST, found)
    # The detector knows of restarts; everything else that it measured must be equal.
    state["detector"] = measured(state["detector"])
    return found, state


RESTARTS = {"attempt", "resumed_step", "gaps", "monitors"}
"""Where a detector keeps which start judged last, and what a restart may have lost."""


def measured(state):
    """A detector's state without what it knows of restarts."""
    if not isinstance(state, dict):
        return state
    return {key: measured(value) for key, value in state.items() if key not in RESTARTS}


def assert_same_run(a: Path, b: Path) -> None:
    assert_frame_equal(signals(a), signals(b), check_exact=True)
    (tensors_a, state_a), (tensors_b, state_b) = final_state(a), final_state(b)
    assert state_a == state_b
    assert tensors_a.keys() == tensors_b.keys()
    for name, tensor in tensors_a.items():
        assert tensor.numpy().tobytes() == tensors_b[name].numpy().tobytes(), name


@pytest.fixture(scope="module")
def whole(tiny, command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done = command(folder, "train", str(tiny / "tiny.toml"), "--name", "x")
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "x"


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_resumed_equals_uninterrupted(point, tiny, command, whole, tmp_path):
    # Segments are merged once there are eight.
    often = ["--set", "checkpoint.every=1"] if point.startswith("merge") else []
    killed = command(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "x", *often),
        environment={"SUREFOOT_CRASH_AT": point},
    )
    assert killed.returncode == -9, killed.stderr
    assert f"crash point {point.partition(':')[0]} reached" in killed.stderr

    # A killed run opens, with every row but the one in flight.
    runs.open(tmp_path / "runs" / "x")

    resumed = command(tmp_path, "train", "--name", "x", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert_same_run(tmp_path / "runs" / "x", whole)


def test_two_runs_are_equal_and_another_seed_is_not(tiny, command, whole, tmp_path):
    recipe = str(tiny / "tiny.toml")
    assert command(tmp_path, "train", recipe, "--name", "again").returncode == 0
    assert_same_run(tmp_path / "runs" / "again", whole)
    assert command(tmp_path, "train", recipe, "--name", "b", "--set", "seed=4").returncode == 0
    other = signals(tmp_path / "runs" / "b")["loss"]
    assert not (other == signals(whole)["loss"]).any()


class TerminateAt:
    """An observer that gets the process a SIGTERM once the record of a step has come."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_record(self, record, verdict) -> None:
        if record.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_finding(self, finding) -> None:
        pass


def test_sigterm_saves_and_resumes_bit_equal(tiny, command, whole, tmp_path):
    recipe, sources = load(tiny / "tiny.toml")
    threads = torch.get_num_threads()
    try:
        job = create(recipe, sources, tmp_path / "runs" / "x", join("cpu"), say=lambda line: None)
        outcome = train(job, TerminateAt(5))  # the record of step 5 comes during step 6
    finally:
        torch.set_num_threads(threads)
    assert outcome.interrupted == signal.SIGTERM
    assert outcome.step == 6

    store = CheckpointStore(tmp_path / "runs" / "x" / "checkpoints")
    saved = {info.step: info for info in store.infos()}
    assert (saved[6].status, saved[6].reason) == ("quarantined", "signal")
    assert store.latest() == 4

    resumed = command(tmp_path, "train", "--name", "x", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming x at step 6" in resumed.stderr
    assert_same_run(tmp_path / "runs" / "x", whole)


MUTANT = """
import sys
from surefoot.train.loop import _Loop

def checkpoint_then_rows(self, stop):
    self.job.save(self.reason(stop))
    self.take(self.job.recorder.settle())

_Loop.checkpoint = checkpoint_then_rows
from surefoot.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_trainer_that_saves_before_its_rows_would_be_noticed(tiny, command, whole, tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", MUTANT, "train", str(tiny / "tiny.toml"), "--name", "x"],
        cwd=tmp_path,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "SUREFOOT_CRASH_AT": "checkpoint.after_rename:2",
        },
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    assert command(tmp_path, "train", "--name", "x", "--resume").returncode == 0
    with pytest.raises(AssertionError):
        assert_same_run(tmp_path / "runs" / "x", whole)


def test_rows_are_in_durable_segments_before_a_checkpoint_is_written(tiny, tmp_path, monkeypatch):
    folder, seen = tmp_path / "x", []
    save = CheckpointStore.save

    def watched(self, step, *arguments, **options):
        files = sorted((folder / "signals").glob("*.parquet"))
        steps = pl.read_parquet(files)["step"].to_list() if files else []
        assert sorted(steps) == list(range(1, step + 1))
        seen.append(step)
        return save(self, step, *arguments, **options)

    monkeypatch.setattr(CheckpointStore, "save", watched)
    recipe, sources = load(tiny / "tiny.toml", ["schedule.steps=6", "checkpoint.every=2"])
    train(create(recipe, sources, folder, join("cpu"), say=lambda line: None), TerminateAt(99))
    assert seen == [0, 2, 4, 6]


def test_ledger_tells_every_start(whole):
    kinds = [event.kind for event in runs.open(whole).events]
    assert kinds[0] == "started"
    assert kinds[-1] == "finished"
    assert kinds.count("checkpoint") == 4
    lines = (whole / "events.jsonl").read_text().splitlines()
    assert all(json.loads(line)["kind"] for line in lines)


@pytest.mark.slow
def test_killed_at_random_times_again_and_again(tiny, command, tmp_path):
    """Eight kills at times drawn at random, then the end: as if nothing had happened."""
    long = ["--set", "schedule.steps=240", "--set", "checkpoint.every=10"]
    recipe = str(tiny / "tiny.toml")
    assert command(tmp_path, "train", recipe, "--name", "whole", *long).returncode == 0
    draw, ledger = random.Random(5), tmp_path / "runs" / "x" / "events.jsonl"
    arguments = ["train", recipe, "--name", "x", *long]
    for _ in range(8):
        written = ledger.stat().st_size if ledger.exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-m", "surefoot", *arguments],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        while not ledger.exists() or ledger.stat().st_size == written:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 0.6))
        process.kill()
        assert process.wait() == -9
        arguments = ["train", "--name", "x", "--resume"]
    done = command(tmp_path, "train", "--name", "x", "--resume")
    assert done.returncode == 0, done.stderr
    assert_frame_equal(
        signals(tmp_path / "runs" / "x"), signals(tmp_path / "runs" / "whole"), check_exact=True
    )


@pytest.mark.slow
def test_compiled_run_says_what_it_does_not_promise(tiny, command, tmp_path):
    done = command(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "x"),
        *("--set", "training.compile=true", "--set", "schedule.steps=4"),
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "not promised to be equal bit for bit" in done.stderr
    assert runs.open(tmp_path / "runs" / "x").signals["loss"].is_finite().all()

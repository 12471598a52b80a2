"""What `--resume` does with a run whose folder, data or tokenizer is no longer what it was."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from surefoot import runs
from surefoot.checkpoint import CheckpointStore
from surefoot.recipe import load
from surefoot.train import create, join, train


@pytest.fixture(scope="module")
def killed(tiny, command, tmp_path_factory):
    """A folder with the run `x`, killed after step 11: checkpoints at 0, 4 and 8."""
    folder = tmp_path_factory.mktemp("killed")
    done = command(
        folder,
        *("train", str(tiny / "tiny.toml"), "--name", "x", "--quiet"),
        environment={"SUREFOOT_CRASH_AT": "step:11"},
    )
    assert done.returncode == -9, done.stderr
    return folder


@pytest.fixture
def run(killed, tmp_path):
    """A copy of it, to be harmed."""
    shutil.copytree(killed / "runs", tmp_path / "runs")
    return tmp_path / "runs" / "x"


def harm(checkpoint: Path) -> None:
    victim = next(checkpoint.glob("*.distcp"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != "lock"
    }


def test_a_damaged_checkpoint_is_told_and_in_the_ledger_even_with_quiet(run, command):
    harm(run / "checkpoints" / "step-000000008")
    done = command(run.parents[1], "train", "--name", "x", "--resume", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "step-000000008" in done.stderr
    resumed = next(e for e in runs.open(run).events if e.kind == "resumed")
    assert resumed.step == 4
    assert any("step-000000008" in problem for problem in resumed.data["problems"])


@pytest.mark.parametrize("how", ["all damaged", "all deleted"])
def test_without_an_intact_checkpoint_nothing_is_overwritten(how, run, command):
    for checkpoint in (run / "checkpoints").glob("step-*"):
        harm(checkpoint)
    if how == "all deleted":
        shutil.rmtree(run / "checkpoints")
    before = contents(run)
    done = command(run.parents[1], "train", "--name", "x", "--resume", "--quiet")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no intact checkpoint" in done.stderr
    assert contents(run) == before


def test_it_says_how_many_steps_are_taken_again(run, command):
    done = command(run.parents[1], "train", "--name", "x", "--resume")
    assert "resuming x at step 8 of 12; 3 recorded steps after it are taken again" in done.stderr


def test_changed_text_is_refused_by_resume_and_by_data_show(tiny, command, tmp_path):
    shutil.copytree(tiny / "corpus", tmp_path / "corpus")
    shutil.copy(tiny / "tiny.toml", tmp_path / "tiny.toml")
    killed = command(
        tmp_path,
        *("train", "tiny.toml", "--name", "x", "--quiet"),
        environment={"SUREFOOT_CRASH_AT": "step:6"},
    )
    assert killed.returncode == -9
    (tmp_path / "corpus" / "doc03.txt").write_text("other words " * 99, encoding="utf-8")
    for arguments in (["train", "--name", "x", "--resume"], ["data", "show", "x", "--step", "2"]):
        done = command(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "the data of run 'x' has changed" in done.stderr


def swapped(tokenizer: Path) -> None:
    """Give two tokens each other's number, as an edit or another training would."""
    data = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = data["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    tokenizer.write_text(json.dumps(data), encoding="utf-8")


def test_a_run_goes_on_with_the_tokenizer_it_began_with(killed, tiny, command, tmp_path):
    given = tmp_path / "given.json"
    shutil.copy(killed / "runs" / "x" / "tokenizer.json", given)
    arguments = ["train", str(tiny / "tiny.toml"), "--quiet", "--set", f"data.tokenizer={given}"]
    assert command(tmp_path, *arguments, "--name", "whole").returncode == 0
    crash = {"SUREFOOT_CRASH_AT": "step:6"}
    assert command(tmp_path, *arguments, "--name", "x", environment=crash).returncode == -9
    swapped(given)
    kept = (tmp_path / "runs" / "x" / "tokenizer.json").read_bytes()
    done = command(tmp_path, "train", "--name", "x", "--resume")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "x" / "tokenizer.json").read_bytes() == kept
    whole, resumed = (runs.open(tmp_path / "runs" / n).signals["loss"] for n in ("whole", "x"))
    assert resumed.to_list() == whole.to_list()


def test_export_refuses_an_altered_tokenizer_and_resume_mends_it(run, command):
    swapped(run / "tokenizer.json")
    done = command(run.parents[1], "export", "x", "--out", "hf")
    assert done.returncode == 2
    assert "missing or altered" in done.stderr
    assert command(run.parents[1], "train", "--name", "x", "--resume", "-q").returncode == 0
    assert command(run.parents[1], "export", "x", "--out", "hf").returncode == 0


class SignalAtTheEnd:
    """An observer that sends SIGTERM while the last step is taken."""

    def on_record(self, record, verdict) -> None:
        if record.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_finding(self, finding) -> None:
        pass


def test_a_signal_during_the_last_step_leaves_a_finished_run(tiny, tmp_path):
    recipe, sources = load(tiny / "tiny.toml", ["schedule.steps=4"])
    job = create(recipe, sources, tmp_path / "x", join("cpu"), say=lambda line: None)
    outcome = train(job, SignalAtTheEnd())
    assert outcome.interrupted is None
    assert outcome.step == 4
    assert CheckpointStore(tmp_path / "x" / "checkpoints").latest() == 4
    assert runs.open(tmp_path / "x").events[-1].kind == "finished"

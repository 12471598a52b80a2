"""The run folder of a loop that is not surefoot's: written, killed, gone on with, read."""

import json
import math
import os
import signal
import subprocess
import sys

import pytest
import torch

import surefoot
from surefoot import runs
from surefoot.cli import main
from surefoot.detect import diagnose
from surefoot.errors import RunFolderError, UsageError
from surefoot.readers import read_run
from surefoot.records import ArchitectureSpec, ScheduleSpec, Source, TrainSpec
from surefoot.watching import Watch


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, fused=True)


@pytest.fixture
def loop(model, optimizer, loss_of):
    """Take steps; ``poison`` makes the loss NaN, of a gradient that stays finite."""

    def take(watching, steps=1, poison=False, **signals):
        for _ in range(steps):
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            watching.loss(loss * math.nan if poison else loss)
            verdict = watching.step(**signals)
            optimizer.zero_grad()
        return verdict

    return take


def test_rows_are_there_at_once_and_the_folder_is_a_run(tmp_path, model, optimizer, loop):
    path = tmp_path / "runs" / "mine"
    with surefoot.watch(model, optimizer, run=path, vocab_size=12) as watching:
        for step in range(1, 6):
            loop(watching, data_phase=step // 3, batch_size=8)
            # What a crash now would lose is the step in flight.
            assert runs.open(path).signals["step"].to_list() == list(range(1, step + 1))
    run = runs.open(path)
    assert run.problems == ()
    assert run.signals["data_phase"].to_list() == [0, 0, 1, 1, 1]
    assert run.signals["batch_size"].to_list() == [8] * 5
    assert run.signals["attempt"].to_list() == [0] * 5
    assert "grad_cosine" not in run.signals.columns  # sampled at 1, before there is a moment
    assert run.signals["update_rms"].null_count() == 4
    assert run.places["grad_norm"] == tuple(n for n, _ in model.named_parameters())
    assert [event.kind for event in run.events] == ["started", "finished"]
    assert run.environment["packages"]["torch"] == torch.__version__
    assert watching.record.values["loss"] == pytest.approx(run.signals["loss"][4])


def test_a_device_that_takes_its_time(tmp_path, model, optimizer, loop, monkeypatch):
    """As on a GPU: the row is stored when its copy has arrived, at the latest a step later."""
    from surefoot.signals.mailbox import Mailbox

    there = [False]
    monkeypatch.setattr(Mailbox, "arrived", property(lambda self: self.full and there[0]))
    path = tmp_path / "x"
    watching = surefoot.watch(model, optimizer, run=path)

    def stored() -> int:
        return len(runs.open(path).signals)

    loop(watching)
    assert stored() == 0
    loop(watching)
    assert stored() == 1
    there[0] = True
    watching.loss(1.0)  # in the middle of step 3
    assert stored() == 2
    watching._end()
    assert stored() == 2


def test_the_spec_says_what_is_known_and_from_where(tmp_path, model, optimizer):
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.1)
    given = TrainSpec(
        schedule=ScheduleSpec(steps=500),
        architecture=ArchitectureSpec(layers=2),
        seed=7,
        sources={"schedule.steps": Source(kind="flag", flag="--steps")},
    )
    surefoot.watch(
        model, optimizer, run=tmp_path / "x", level="full", vocab_size=12, spec=given
    ).finish()
    spec = runs.read_spec(tmp_path / "x")
    assert (spec.name, spec.trainer, spec.seed) == ("x", "surefoot.watch", 7)
    assert spec.optimizer.name == "adamw"
    assert spec.optimizer.learning_rate == 1e-2  # not what the scheduler has made of it
    assert (spec.optimizer.beta1, spec.optimizer.beta2) == (0.9, 0.999)
    assert (spec.optimizer.eps, spec.optimizer.weight_decay) == (1e-8, 0.1)
    assert spec.optimizer.fused is True
    assert spec.architecture.vocab_size == 12
    assert spec.architecture.layers == 2
    assert spec.schedule.steps == 500
    assert spec.precision.master == "fp32"
    assert spec.options["watch"]["level"] == "full"
    assert spec.sources["schedule.steps"].flag == "--steps"
    assert "given to surefoot.watch" in spec.sources["optimizer.eps"].flag
    assert set(spec.sources) >= set(spec.stated()) - {"architecture.layers", "seed"}


def test_findings_are_in_the_ledger_and_offline_says_the_same(tmp_path, model, optimizer, loop):
    with surefoot.watch(model, optimizer, run=tmp_path / "x", vocab_size=12) as watching:
        loop(watching, 20)
        watching.state_dict()
        watching.saved()
        loop(watching, 10)
        loop(watching, poison=True)
        verdict = loop(watching, 3)
    # Told when it happened, and again at the end, as still open.
    assert [f.code for f in watching.findings] == ["SPK004", "SPK004"]
    finding = watching.findings[0]
    assert finding.place.run == "x"
    assert finding.place.steps[0] == 31
    assert finding.evidence["rewind_to_step"] == 20
    assert verdict.step == 33
    run = runs.open(tmp_path / "x")
    event, _ = [event for event in run.events if event.kind == "finding"]
    assert event.data["finding"]["code"] == "SPK004"
    assert [e.step for e in run.events if e.kind == "checkpoint"] == [20]
    (offline,) = diagnose(run)
    assert (offline.code, offline.place.steps[0]) == ("SPK004", 31)
    assert read_run(tmp_path / "x").signals.equals(run.signals)


@pytest.mark.parametrize("format", ["text", "json", "html"])
def test_the_command_line_reads_it(tmp_path, model, optimizer, loop, capsys, monkeypatch, format):
    with surefoot.watch(model, optimizer, run=tmp_path / "runs" / "x") as watching:
        loop(watching, 30)
        loop(watching, poison=True)
        loop(watching, 3)
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", "runs/x", "--format", format]) == 1
    assert "SPK004" in capsys.readouterr().out
    assert main(["report", "runs/x"]) in (0, 1)
    assert (tmp_path / "runs" / "x" / "report.html").is_file()


def test_it_goes_on_as_a_new_attempt(tmp_path, model, optimizer, loop, recorder):
    path = tmp_path / "x"
    first = surefoot.watch(model, optimizer, run=path, detector=recorder)
    loop(first, 4)
    state = json.loads(json.dumps(first.state_dict()))
    loop(first, 3)
    first._end()  # as at the end of a process that failed
    assert runs.open(path).signals["step"].to_list() == list(range(1, 8))

    again = surefoot.watch(model, optimizer, run=path, detector=type(recorder)())
    again.load_state_dict(state)
    loop(again, 2)
    again.finish()
    run = runs.open(path)
    assert run.signals["step"].to_list() == [1, 2, 3, 4, 5, 6]
    assert run.signals["attempt"].to_list() == [0, 0, 0, 0, 1, 1]
    assert again.record.attempt == 1
    rows = runs.all_attempts(path)
    assert rows.filter(rows["attempt"] == 0)["step"].to_list() == list(range(1, 8))
    assert [e.kind for e in run.events if e.kind != "finding"] == ["started", "resumed", "finished"]


def test_a_loop_may_go_back_without_ending(tmp_path, model, optimizer, loop, recorder):
    watching = surefoot.watch(model, optimizer, run=tmp_path / "x", detector=recorder)
    loop(watching, 3)
    state = watching.state_dict()
    watching.saved()
    loop(watching, 4)
    watching.load_state_dict(state)
    assert watching.verdict.status == "warming_up"
    loop(watching, 2)
    watching.finish()
    run = runs.open(tmp_path / "x")
    assert run.problems == ()
    assert run.signals["step"].to_list() == [1, 2, 3, 4, 5]
    assert run.signals["attempt"].to_list() == [0, 0, 0, 1, 1]
    rows = runs.all_attempts(tmp_path / "x")
    assert rows.filter(rows["attempt"] == 0)["step"].to_list() == list(range(1, 8))


def test_a_folder_that_is_there_is_not_gone_on_with_by_guess(tmp_path, model, optimizer, loop):
    path = tmp_path / "x"
    with surefoot.watch(model, optimizer, run=path) as watching:
        loop(watching, 3)
    again = surefoot.watch(model, optimizer, run=path)
    with pytest.raises(UsageError, match=r"was begun before: call watch.load_state_dict\(state\)"):
        again.loss(1.0)
    with pytest.raises(UsageError, match=r"resume_at=STEP"):
        again.step()
    again._leave()
    assert len(runs.open(path).signals) == 3

    with surefoot.watch(model, optimizer, run=path, resume_at=2) as watching:
        loop(watching, 2)
    assert runs.open(path).signals["attempt"].to_list() == [0, 0, 1, 1]


def test_a_state_can_begin_a_new_folder(tmp_path, model, optimizer, loop):
    first = surefoot.watch(model, optimizer)
    loop(first, 3)
    state = first.state_dict()
    first.finish()
    with surefoot.watch(model, optimizer, run=tmp_path / "new") as watching:
        watching.load_state_dict(state)
        loop(watching, 2)
    run = runs.open(tmp_path / "new")
    assert run.signals["step"].to_list() == [4, 5]


def test_what_is_no_run_folder_is_left_alone(tmp_path, model, optimizer):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        surefoot.watch(model, optimizer, run=tmp_path)
    assert not optimizer._optimizer_step_pre_hooks


def test_two_writers_of_one_run_are_refused(tmp_path, model, optimizer):
    with (
        surefoot.watch(model, optimizer, run=tmp_path / "x"),
        pytest.raises(RunFolderError, match="being written by another trainer"),
    ):
        surefoot.watch(model, optimizer, run=tmp_path / "x", resume_at=0)


def test_an_error_in_the_loop_is_noted_and_its_rows_are_kept(tmp_path, model, optimizer, loop):
    def fail() -> None:
        with surefoot.watch(model, optimizer, run=tmp_path / "x") as watching:
            loop(watching, 3)
            raise KeyError("my loader")

    with pytest.raises(KeyError):
        fail()
    run = runs.open(tmp_path / "x")
    assert len(run.signals) == 3
    assert run.events[-1].kind == "failed"
    assert "my loader" in run.events[-1].data["error"]
    assert not optimizer._optimizer_step_pre_hooks


SCRIPT = """
import os, sys
import torch
import surefoot

model = torch.nn.Sequential(torch.nn.Embedding(12, 6), torch.nn.Linear(6, 12))
optimizer = torch.optim.AdamW(model.parameters())
watch = surefoot.watch(model, optimizer, run="x")
for step in range(1, 9):
    tokens = torch.randint(0, 12, (8,))
    loss = torch.nn.functional.cross_entropy(model(tokens), tokens)
    loss.backward()
    optimizer.step()
    if step == 8:
        os.kill(os.getpid(), 9) if sys.argv[1] == "kill" else 1 / 0
    watch.loss(loss)
    watch.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("how", ["kill", "raise"])
def test_a_process_that_dies_loses_the_step_in_flight_only(tmp_path, how):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if how == "kill" else 1), done.stderr
    assert ("ZeroDivisionError" in done.stderr) == (how == "raise")
    run = runs.open(tmp_path / "x")
    assert run.signals["step"].to_list() == list(range(1, 8))
    assert run.problems == ()


def test_only_the_first_rank_writes(tmp_path, model, optimizer, loop, monkeypatch):
    import torch.distributed as dist

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    with surefoot.watch(model, optimizer, run=tmp_path / "x") as watching:
        loop(watching, 2)
    assert not (tmp_path / "x").exists()
    assert isinstance(watching, Watch)

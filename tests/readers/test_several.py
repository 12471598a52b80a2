"""Several files of one run: repeats, their order, attempts of files after one another."""

import json

import pytest

from surefoot.readers import read_run

from .conftest import column


def state(last: int, shift: float = 0.0, every: int = 10) -> str:
    """A trainer_state.json of a run up to the step ``last``."""
    history = [
        {"loss": 4.0 - step / 1000 + shift, "step": step, "epoch": step / 500}
        for step in range(every, last + 1, every)
    ]
    return json.dumps({"global_step": last, "max_steps": 1200, "log_history": history})


@pytest.fixture
def write(tmp_path):
    """``write({"a/b.log": text, ...}) -> folder``."""

    def made(files: dict[str, str]):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return tmp_path

    return made


def lines(first: int, last: int, loss: float = 5.0) -> str:
    """Megatron records of the steps from first to last."""
    return "".join(
        f" iteration {step:8d}/ 5000 | lm loss: {loss - step / 1e4:.6E} | grad norm: 1.250 |\n"
        for step in range(first, last + 1)
    )


def test_the_checkpoints_of_a_run_are_one_run(write):
    folder = write(
        {f"checkpoint-{n}/trainer_state.json": state(n) for n in (200, 400, 1000)}
    )  # by the alphabet 1000 comes first
    run = read_run(folder)
    assert column(run, "step") == list(range(10, 1001, 10))
    assert run.reading["attempts"] == [{"attempt": 0, "first": 10, "last": 1000, "rows": 100}]
    assert run.superseded is None
    assert run.reading["facts"]["last_step"] == 1000
    assert [info.step for info in run.checkpoints] == [200, 400, 1000]
    assert len(run.reading["repeated"]) == 2


def test_the_state_of_the_end_keeps_what_only_it_tells(write):
    whole = json.loads(state(400))
    whole["log_history"].append({"train_runtime": 90.5, "train_loss": 3.8, "step": 400})
    folder = write(
        {
            "checkpoint-400/trainer_state.json": state(400),
            "trainer_state.json": json.dumps(whole),
        }
    )
    run = read_run(folder)
    assert len(run.reading["attempts"]) == 1
    assert run.reading["facts"]["run_train_runtime"] == 90.5


def test_a_checkpoint_of_another_history_is_an_attempt(write):
    folder = write({"checkpoint-300/trainer_state.json": state(300, 0.5), "b.json": state(400)})
    run = read_run(folder)
    assert [a["last"] for a in run.reading["attempts"]] == [400, 300]
    assert run.reading["overlaps"][0]["equal"] is False


def test_ranks_that_tell_the_same_losses_are_one_run(write):
    folder = write({"0/stdout.log": lines(1, 50), "1/stdout.log": lines(1, 48)})
    run = read_run(folder)
    assert run.reading["attempts"] == [{"attempt": 0, "first": 1, "last": 50, "rows": 50}]


def test_a_rank_without_a_loss_adds_no_attempt(write):
    blind = "".join(
        f" iteration {step:8d}/ 5000 | lm loss: -1.000000E+00 | grad norm: 1.250 |\n"
        for step in range(1, 51)
    )
    run = read_run(write({"0.log": blind, "1.log": lines(1, 50)}))
    assert len(run.reading["attempts"]) == 1
    assert run.signals["loss"][0] == pytest.approx(4.9999)


def test_names_are_ordered_by_their_numbers(write):
    folder = write({"slurm-999.out": lines(1, 120), "slurm-1000.out": lines(101, 200, loss=5.5)})
    run = read_run(*sorted(folder.glob("slurm-*.out")))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 120), (101, 200)]
    assert column(run, "step") == list(range(1, 201))
    assert run.signals["loss"][100] == pytest.approx(5.5 - 0.0101)  # the later one won


def test_files_named_in_another_order_stay_in_it(write):
    folder = write({"b.out": lines(1, 120), "a.out": lines(101, 200, loss=5.5)})
    run = read_run(folder / "b.out", folder / "a.out")
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 120), (101, 200)]


def test_parts_that_share_no_step_are_in_the_order_of_their_steps(write):
    folder = write({"a.out": lines(101, 200), "b.out": lines(1, 100), "c.out": lines(201, 250)})
    run = read_run(folder)
    assert column(run, "step") == list(range(1, 251))
    assert run.superseded is None


def test_an_event_is_of_the_attempt_of_its_file(write):
    saved = " successfully saved checkpoint at iteration     110 to /ck\n"
    folder = write({"1.out": lines(1, 105), "2.out": lines(101, 110, loss=5.5) + saved})
    run = read_run(folder)
    assert [(e.kind, e.step, e.attempt) for e in run.events] == [("checkpoint", 110, 1)]


def test_files_that_begin_alike_and_differ_are_doubted(write):
    folder = write({"a.out": lines(1, 50), "b.out": lines(1, 60, loss=5.5)})
    (problem,) = read_run(folder).problems
    assert problem.startswith("2 files begin at step 1 and tell different things of it")
    assert read_run(write({"b.out": lines(51, 60)})).problems == ()


def test_tables_of_one_metric_each_are_joined(write):
    """As a tracker exports its charts: each with its own count of calls beside the step."""
    table = '"Step","{0} - _step","{0} - {1}"\n"1","11","{2}"\n"2","12","{3}"\n'
    folder = write(
        {
            "a.csv": table.format("sun-1", "train/loss", 2.5, 2.25),
            "b.csv": table.format("sun-1", "train/grad_norm", 1.5, "NaN"),
            "c.csv": table.format("sun-1", "eval/loss", 3.5, 3.25),
        }
    )
    run = read_run(folder)
    assert column(run, "step") == [1, 2]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "grad_norm")[0] == 1.5
    assert column(run, "validation_loss") == [3.5, 3.25]
    assert len(run.reading["attempts"]) == 1
    assert run.problems == ()

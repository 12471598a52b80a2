"""trainer_state.json of transformers."""

import json
import math

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run

from ..conftest import column

ROWS = [
    {"epoch": 0.1, "grad_norm": 1.25, "learning_rate": 1e-05, "loss": 3.5, "step": 10},
    {"epoch": 0.2, "grad_norm": math.nan, "learning_rate": 2e-05, "loss": 3.0, "step": 20},
    {"epoch": 0.2, "eval_loss": 3.25, "eval_runtime": 4.5, "step": 20},
    {"epoch": 0.3, "grad_norm": math.inf, "learning_rate": 3e-05, "loss": 0.0, "step": 30},
    {"epoch": 0.3, "step": 30, "total_flos": 1e18, "train_loss": 9.75, "train_runtime": 60.5,
     "train_samples_per_second": 8.0, "train_steps_per_second": 0.5},
]  # fmt: skip


def state(rows=ROWS, **more) -> dict:
    """A state as the Trainer writes it: keys sorted, the history in the middle."""
    return {
        "best_metric": 3.25,
        "best_model_checkpoint": "out/checkpoint-20",
        "epoch": 0.3,
        "global_step": 30,
        "is_local_process_zero": True,
        "is_world_process_zero": True,
        "log_history": rows,
        "max_steps": 100,
        "num_train_epochs": 1,
        **more,
    }


def dumped(**more) -> str:
    return json.dumps(state(**more), indent=2)


def test_rows_evaluations_and_the_summary_that_is_no_row(read_text):
    run = read_text(dumped(), "trainer_state.json")
    assert run.reading["format"] == "trainer-state"
    assert column(run, "step") == [10, 20, 30]
    assert column(run, "loss") == [3.5, 3.0, 0.0]
    assert column(run, "validation_loss") == [None, 3.25, None]
    assert column(run, "eval_runtime") == [None, 4.5, None]
    assert column(run, "learning_rate") == [1e-05, 2e-05, 3e-05]
    norms = column(run, "grad_norm")
    assert norms[0] == 1.25
    assert math.isnan(norms[1])
    assert norms[2] == math.inf
    assert run.reading["attempts"] == [{"attempt": 0, "first": 10, "last": 30, "rows": 3}]


def test_what_the_state_says_of_the_run(read_text):
    run = read_text(dumped())
    assert run.reading["facts"]["steps"] == 100
    assert run.reading["facts"]["run_train_loss"] == 9.75
    assert [(c.step, c.path) for c in run.checkpoints] == [(20, "out/checkpoint-20")]


def test_a_best_model_without_a_step_in_its_name_is_no_checkpoint(read_text):
    assert read_text(dumped(best_model_checkpoint="out/best")).checkpoints == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_crlf_and_marks(read_text, encoding):
    run = read_text(dumped().replace("\n", "\r\n"), encoding=encoding)
    assert column(run, "loss") == [3.5, 3.0, 0.0]


def test_one_line_and_any_order_of_keys(read_text):
    run = read_text(json.dumps({"log_history": ROWS, "max_steps": 7}))
    assert run.reading["format"] == "trainer-state"
    assert column(run, "step") == [10, 20, 30]


@pytest.mark.parametrize(
    ("end", "steps"),
    [
        ('"learning_rate": 3e-05,', [10, 20]),  # within the fourth entry: it is not whole
        ('"eval_loss": 3.2', [10, 20]),
        ('"grad_norm": Infin', [10, 20]),
        ('"max_steps": 1', [10, 20, 30]),
    ],
)
def test_a_file_that_is_cut_gives_its_whole_entries(read_text, end, steps):
    text = dumped()
    cut = text[: text.index(end) + len(end)]
    run = read_text(cut)
    assert column(run, "step") == steps
    assert "validation_loss" in run.signals.columns or "eval_loss" in end
    assert "cut short" in run.problems[0]


def test_what_stands_before_damage_is_read(read_text):
    text = dumped()
    at = text.index('"eval_loss"')
    run = read_text(text[:at] + "\0\0\x01" + text[at + 3 :])
    assert column(run, "step") == [10, 20]
    assert "damaged" in run.problems[0]


def test_names_of_several_evaluation_sets_stay_apart(read_text):
    rows = [
        {"loss": 2.0, "step": 5},
        {"eval_g0_loss": 1.0, "step": 5},
        {"eval_g1_loss": 1.5, "step": 5},
    ]
    run = read_text(dumped(rows=rows))
    assert column(run, "eval_g0_loss") == [1.0]
    assert column(run, "eval_g1_loss") == [1.5]


def test_a_mapping_names_the_loss(read_text):
    rows = [{"ce": 2.5, "loss": 7.0, "step": 5}, {"ce": 2.25, "loss": 6.0, "step": 6}]
    run = read_text(dumped(rows=rows), mapping={"loss": "ce"})
    assert column(run, "loss") == [2.5, 2.25]


def test_an_empty_history_is_an_error(read_text):
    with pytest.raises(LogError, match="no metrics"):
        read_text(dumped(rows=[]))


def test_deep_nesting_ends_in_an_error(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"max_steps": 1, "log_history": [' + "[" * 200_000)
    with pytest.raises(LogError):
        read_run(path)


@pytest.mark.parametrize(
    "name",
    [
        "hf-trainer-state-mt5/trainer_state.json",
        "hf-trainer-state-viz/trainer_state.json",
        "llamafactory-nsllm/trainer_state.json",
    ],
)
def test_corpus(corpus, name):
    path = corpus(name)
    rows = [r for r in json.loads(path.read_text())["log_history"] if "train_runtime" not in r]
    run = read_run(path)
    assert run.reading["format"] == "trainer-state"
    assert column(run, "step") == sorted({row["step"] for row in rows})
    for key, name in (("loss", "loss"), ("learning_rate", "learning_rate"),
                      ("grad_norm", "grad_norm"), ("eval_loss", "validation_loss")):  # fmt: skip
        told = {row["step"]: row[key] for row in rows if key in row}
        got = run.signals.select("step", name).drop_nulls().rows() if told else []
        assert dict(got) == told
    fields = {key for row in rows for key in row} - {"step"}
    assert len(run.signals.columns) == len(fields) + 2

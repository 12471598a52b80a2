"""Golden values of Megatron, baselines of MindSpeed-LLM, other JSON documents."""

import io
import json
import math
import time

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs.json_table import FORMATS
from surefoot.readers.logs.trainer_state import TrainerState
from surefoot.readers.logs.wandb_summary import WandbSummary
from surefoot.readers.text import Source

from ..conftest import REAL, column


def golden(values, begin=1, end=4, every=1):
    return {"start_step": begin, "end_step": end, "step_interval": every, "values": values}


def test_golden_values_by_step_and_nan_that_was_not_logged(read_text):
    document = {
        "lm loss": golden({"1": 10.5, "2": "nan", "3": 9.75, "4": 9.5}),
        "num-zeros": golden({"1": 100.0, "2": 110.0, "3": 120.0, "4": "nan"}),
        "mem-allocated-bytes": golden({"1": 4096.0}),
        "mem-max-allocated-bytes": golden({"1": 8192.0}),
        "iteration-time": golden({"3": 0.25, "4": 0.5}, begin=2),
    }
    run = read_text(json.dumps(document, indent=4))
    assert run.reading["format"] == "megatron-golden"
    assert column(run, "step") == [1, 2, 3, 4]
    assert column(run, "loss") == [10.5, None, 9.75, 9.5]
    assert column(run, "num_zeros") == [100, 110, 120, None]
    assert column(run, "memory_allocated")[0] == 4096.0
    assert column(run, "memory")[0] == 8192.0
    assert column(run, "step_time") == [None, None, 0.25, 0.5]


def test_old_golden_values_are_a_list(read_text):
    document = {
        "lm loss": golden([5.5, 5.25, 5.0], begin=0, end=11, every=5),
        "iteration-time": golden([0.5], begin=0, end=5, every=5),
    }
    run = read_text(json.dumps(document))
    assert column(run, "step") == [0, 5, 10]
    assert column(run, "loss") == [5.5, 5.25, 5.0]
    assert column(run, "step_time") == [0.5, None, None]


def test_a_step_at_which_nothing_was_logged_is_no_row(read_text):
    run = read_text(json.dumps({"lm loss": golden({"1": "nan", "2": 3.5, "3": "nan"})}))
    assert column(run, "step") == [2]


def test_golden_values_that_are_cut(read_text):
    text = json.dumps({"lm loss": golden({"1": 3.5, "2": 3.25, "3": 3.125})})
    run = read_text(text[: text.index(".125")])
    assert column(run, "loss") == [3.5, 3.25]
    assert any("cut short" in problem for problem in run.problems)


def test_a_real_nan_stays(read_text):
    run = read_text('{"lm loss": {"start_step": 1, "end_step": 2, "values": {"1": 2.5, "2": NaN}}}')
    assert math.isnan(column(run, "loss")[1])


def test_mindspeed_baseline(read_text):
    memory = [{"rank": 0, "allocated memory": 10.5, "max allocated memory": 20.5}]
    document = {
        "lm loss": [7.5, 7.25, 7.0],
        "grad norm": [1.5, 1.25, 1.0],
        "throughput": [15.5, 16.5, 17.5],
        "time info": [2500.0, 1500.0],
        "memo info": memory,
    }
    run = read_text(json.dumps(document, indent=1))
    assert run.reading["format"] == "mindspeed-baseline"
    assert column(run, "step") == [1, 2, 3]
    assert column(run, "loss") == [7.5, 7.25, 7.0]
    assert column(run, "grad_norm") == [1.5, 1.25, 1.0]
    assert column(run, "tflops_per_device") == [15.5, 16.5, 17.5]
    assert column(run, "step_time") == [2.5, 1.5, None]
    assert run.reading["facts"]["memo_info"] == memory
    assert run.reading["facts"]["steps_are"] == "rows"


ROWS = [
    {"step": 10, "loss": 2.5, "optim": {"lr": 1e-3}},
    {"step": 20, "loss": None, "optim": {"lr": 2e-3}, "eval_loss": 3.5},
    {"step": 30, "loss": 2.0, "optim": {"lr": 3e-3}, "name": "a"},
]
LISTS = {"step": [10, 20, 30], "loss": [2.5, None, 2.0], "optim/lr": [1e-3, 2e-3, 3e-3]}
PANDAS = {
    "step": {"0": 10, "1": 20, "2": 30},
    "loss": {"0": 2.5, "1": None, "2": 2.0},
    "optim/lr": {"0": 1e-3, "1": 2e-3, "2": 3e-3},
}
SPLIT = {
    "columns": ["step", "loss", "optim/lr"],
    "index": [0, 1, 2],
    "data": [[10, 2.5, 1e-3], [20, None, 2e-3], [30, 2.0, 3e-3]],
}


@pytest.mark.parametrize(
    "document",
    [
        ROWS,
        LISTS,
        PANDAS,
        SPLIT,
        {"config": {"lr": 5}, "history": ROWS},
        {"optim": {"lr": LISTS["optim/lr"]}, "n": 4, "step": LISTS["step"], "loss": LISTS["loss"]},
    ],
    ids=["records", "lists", "pandas", "split", "inside", "nested"],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_other_documents(read_text, document, indent):
    run = read_text(json.dumps(document, indent=indent))
    assert run.reading["format"] == "json"
    assert column(run, "step") == [10, 20, 30]
    assert column(run, "loss") == [2.5, None, 2.0]
    assert column(run, "learning_rate") == [1e-3, 2e-3, 3e-3]


def test_records_one_after_another_over_several_lines(read_text):
    text = "\n".join(json.dumps(row, indent=2) for row in ROWS)
    run = read_text(text)
    assert column(run, "step") == [10, 20, 30]
    assert column(run, "loss") == [2.5, None, 2.0]
    assert run.problems == ()


def test_an_object_of_steps_for_each_metric(read_text):
    run = read_text(json.dumps({"loss": {"100": 2.5, "200": 2.25}, "grad_norm": {"200": 0.5}}))
    assert column(run, "step") == [100, 200]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "grad_norm") == [None, 0.5]


def test_an_object_of_metrics_for_each_step(read_text):
    document = {
        "0": {"lm loss": "1.25E+01", "elapsed time per iteration (ms)": 500.0},
        "1": {"lm loss": "1.15E+01", "elapsed time per iteration (ms)": 250.0},
    }
    run = read_text(json.dumps(document, indent=4))
    assert column(run, "step") == [0, 1]
    assert column(run, "loss") == [12.5, 11.5]
    assert column(run, "step_time") == [0.5, 0.25]


def test_lists_without_a_step_are_rows(read_text):
    run = read_text(json.dumps({"loss": [2.5, 2.25], "seed": [1]}))
    assert column(run, "step") == [1, 2]
    assert run.reading["facts"]["steps_are"] == "rows"


def test_the_user_names_columns(read_text):
    document = [{"k": 5, "q": 1.5}, {"k": 6, "q": 1.25}]
    run = read_text(json.dumps(document), mapping={"loss": "q", "step": "k"})
    assert column(run, "step") == [5, 6]
    assert column(run, "loss") == [1.5, 1.25]


@pytest.mark.parametrize(
    "document",
    [
        {"model": {"hidden": 64, "layers": [1, 2]}, "seed": 1},
        {"train_batch_size": 8, "optimizer": {"params": {"lr": 0.1, "betas": [0.9, 0.95]}}},
        [1, 2, 3],
        [],
        {"a": [[1, 2]]},
        {"epoch": 1.0, "train_loss": 2.5, "train_runtime": 90.5},
        {"lr": 0.1, "steps": 7, "betas": [0.9, 0.95], "layers": [{"size": 4}]},
    ],
)
def test_what_is_no_log(read_text, document):
    with pytest.raises(LogError):
        read_text(json.dumps(document, indent=2))


@pytest.mark.parametrize("text", ["[" * 200_000, '{"loss": [{"step": ' * 50_000])
def test_deep_nesting_ends_in_an_error(read_text, text):
    with pytest.raises(LogError):
        read_text(text)
    with pytest.raises(LogError):
        read_text(text, format_in="json")


@pytest.mark.parametrize(
    "head",
    [b'"' * 65536, b'{"a": [' + b" " * 65000, b'{"' + b"a" * 65000, b'{"a":' * 13000, b"[" * 65536,
     b'{"loss": "' * 6000, b"{" + b'"a" : {' * 8000, b"[ { " * 16000]
)  # fmt: skip
def test_a_look_is_cheap(head):
    begin = time.process_time()
    for kind in (*FORMATS, TrainerState(), WandbSummary()):
        with Source("a.json", raw=io.BytesIO(head)) as source:
            kind.score(source)
    assert time.process_time() - begin < 2.0


def golden_files():
    return sorted(
        str(path.relative_to(REAL)) for path in REAL.glob("*golden*/golden_values_*.json")
    )


@pytest.mark.parametrize("name", golden_files() or ["golden values"])
def test_corpus_golden_values(corpus, name):
    path = corpus(name)
    run = read_run(path)
    assert run.reading["format"] == "megatron-golden"
    signals = {
        "lm loss": "loss",
        "num-zeros": "num_zeros",
        "mem-allocated-bytes": "memory_allocated",
        "mem-max-allocated-bytes": "memory",
        "iteration-time": "step_time",
    }
    document = json.loads(path.read_text())
    assert len(run.signals.columns) == len(document) + 2
    steps = set()
    for key, series in document.items():
        values = series["values"]
        if isinstance(values, list):
            values = {n * series["step_interval"]: value for n, value in enumerate(values)}
        told = {int(step): value for step, value in values.items() if value != "nan"}
        assert dict(run.signals.select("step", signals[key]).drop_nulls().rows()) == told
        steps |= set(told)
    assert column(run, "step") == sorted(steps)


@pytest.mark.parametrize(
    "name",
    [
        "deepseek2_tp1_pp1_mcore_moe",
        "glm_pretrain",
        "gpt4_mcore_tp4_cp2_32k_moe_drop",
        "llama2_tp2_pp4_vpp2_ptd",
    ],
)
def test_corpus_baselines(corpus, name):
    path = corpus(f"mindspeed-llm-baseline/{name}.json")
    document = json.loads(path.read_text())
    run = read_run(path)
    assert column(run, "step") == [*range(1, len(document["lm loss"]) + 1)]
    assert column(run, "loss") == document["lm loss"]
    if "grad norm" in document:
        assert column(run, "grad_norm") == document["grad norm"]
    if "throughput" in document:
        assert column(run, "tflops_per_device") == document["throughput"]
    if "time info" in document:
        assert column(run, "step_time") == pytest.approx([t / 1e3 for t in document["time info"]])
    assert run.reading["facts"].get("memo_info") == document.get("memo info")

"""MLPerf training results."""

import json
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.mlperf import Mlperf
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line

from ..conftest import column


def message(key, value, kind="POINT_IN_TIME", at=1_700_000_000_000, **metadata) -> str:
    record = {
        "namespace": "", "time_ms": at, "event_type": kind, "key": key, "value": value,
        "metadata": {"file": "train.py", "lineno": 7, **metadata},
    }  # fmt: skip
    return f":::MLLOG {json.dumps(record)}"


def log(*messages: str) -> str:
    return "".join(f"{m}\n" for m in messages)


def parsed(*messages: str) -> list:
    parser = Mlperf()
    items = [i for n, text in enumerate(messages, 1) for i in parser.feed(Line(n, text))]
    return [*items, *parser.finish()]


def points(*messages: str) -> list:
    return [(i.step, i.values) for i in parsed(*messages) if isinstance(i, Point)]


BATCH = message("global_batch_size", 16)


def test_samples_become_optimizer_steps(read_text):
    run = read_text(
        log(
            message("submission_benchmark", "llama31_8b"),
            message("seed", 1234),
            message("max_steps", 50),
            message("opt_base_learning_rate", 0.0005),
            message("init_start", None, "INTERVAL_START"),
            BATCH,
            message("tracked_stats", {"warmup_time": 12.5}, step=0),
            message("block_start", None, "INTERVAL_START", samples_count=0),
            message("tracked_stats", {"train_step_time": 2.5, "reduced_train_loss": 7.5},
                    at=1_700_000_003_500, step=16.0),
            message("tracked_stats", {"train_step_time": 2.25, "reduced_train_loss": 7.25},
                    step=32.0),
            message("block_stop", None, "INTERVAL_END", samples_count=32),
            message("tracked_stats", {"throughput": 6.5, "train_step_time": 2.375}, step=0),
            message("tracked_stats", {"validation_step_time": 0.5}, step=16),
            message("eval_accuracy", 7.0, samples_count=32),
            message("tracked_stats", {"reduced_train_loss": 6.75, "lr": 0.25}, step=48.0),
            message("run_stop", None, "INTERVAL_END", samples_count=48, status="success"),
        )
    )  # fmt: skip
    assert run.reading["format"] == "mlperf"
    assert column(run, "step") == [1, 2, 3]
    assert column(run, "loss") == [7.5, 7.25, 6.75]
    assert column(run, "consumed_samples") == [16, 32, 48]
    assert column(run, "step_time") == [2.5, 2.25, None]
    assert column(run, "learning_rate") == [None, None, 0.25]
    assert column(run, "samples_per_second") == [None, 6.5, None]
    assert column(run, "validation_loss") == [None, 7.0, None]
    assert column(run, "validation_step_time") == [None, 0.5, None]
    assert column(run, "timestamp")[0] == 1_700_000_003.5
    facts = run.reading["facts"]
    assert facts["steps_are"] == "optimizer steps, from samples and the global batch size"
    assert (facts["seed"], facts["steps"], facts["global_batch_size"]) == (1234, 50, 16)
    assert (facts["opt_base_learning_rate"], facts["warmup_time"]) == (0.0005, 12.5)
    assert facts["run_status"] == "success"
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 3)]


def test_without_a_batch_size_the_samples_are_the_steps():
    items = parsed(message("train_loss", 1.5, samples_count=80))
    assert [(i.step, i.values) for i in items if isinstance(i, Point)] == [
        (80, {"train_loss": 1.5, "samples_count": 80.0})
    ]
    assert [i.data for i in items if isinstance(i, Note)] == [{"steps_are": "samples"}]


def test_a_step_that_is_no_multiple_of_the_batch_is_a_step():
    one = message("tracked_stats", {"loss": 1.5}, step=10)
    two = message("tracked_stats", {"loss": 1.25}, step=32)
    assert points(BATCH, one, two) == [(10, {"loss": 1.5}), (32, {"loss": 1.25})]
    pair = message("tracked_stats", {"step_loss": 1.5, "seq/sec": 9.0}, step=[1, 20])
    assert points(BATCH, pair) == [(20, {"step_loss": 1.5, "seq/sec": 9.0})]


def test_an_epoch_that_is_samples_or_tokens():
    samples = message("eval_accuracy", 0.5, epoch_num=160)
    assert points(BATCH, samples)[0][0] == 10
    tokens = message("eval_accuracy", 2.5, epoch_num=16 * 2048 * 3)
    assert points(BATCH, message("max_sequence_length", 2048), tokens) == [
        (3, {"eval_accuracy (loss)": 2.5, "samples_count": 48.0})
    ]


def test_accuracy_is_an_accuracy_but_where_the_target_is_a_loss():
    lora = message("submission_benchmark", "llama2_70b_lora")
    bert = message("submission_benchmark", "bert")
    result = message("eval_accuracy", 0.925, samples_count=16)
    assert "eval_accuracy (loss)" in points(lora, BATCH, result)[0][1]
    assert "eval_accuracy" in points(bert, BATCH, result)[0][1]
    assert "eval_accuracy (loss)" in points(BATCH, message("eval_accuracy", 2.5, step=16))[0][1]


def test_results_without_a_step_are_counted():
    items = parsed(BATCH, *(message("eval_accuracy", v, epoch_num=1) for v in (0.25, 0.5)))
    assert [(i.step, i.values) for i in items if isinstance(i, Point)] == [
        (1, {"eval_accuracy": 0.25}),
        (2, {"eval_accuracy": 0.5}),
    ]
    assert {"steps_are": "evaluations"} in [i.data for i in items if isinstance(i, Note)]


def test_the_reference_of_bert_prints_the_step_beside(read_text):
    run = read_text(
        log(
            message("submission_benchmark", "bert"),
            BATCH,
            "{'training_steps': 5, 'step_loss': 4.5, 'learning_rate': 0.001, 'global_steps': 5}",
            message("eval_accuracy", 0.25, epoch_num=1),
            "{'global_steps': 20, 'eval_loss': 4.25, 'eval_mlm_accuracy': 0.25}",
            message("eval_accuracy", 0.5, epoch_num=1),
            "{'global_steps': 40, 'eval_loss': 3.25, 'eval_mlm_accuracy': 0.5}",
        )
    )
    assert column(run, "step") == [5, 20, 40]
    assert column(run, "loss") == [4.5, None, None]
    assert column(run, "validation_accuracy") == [None, 0.25, 0.5]
    assert column(run, "validation_loss") == [None, 4.25, 3.25]


def test_glued_prefixed_and_crlf(read_text):
    first = message("train_loss", 2.5, samples_count=16)
    second = message("train_loss", 2.25, samples_count=32)
    text = log(f"Torch is available.{BATCH}{first}{second}", f"3: {second}", first[:60])
    run = read_text(text.replace("\n", "\r\n"))
    assert column(run, "step") == [1, 2]
    assert column(run, "loss") == [2.5, 2.25]


@pytest.mark.parametrize(
    "line",
    [
        message("block_start", None, "INTERVAL_START", samples_count=16),
        message("init_stop", None, "INTERVAL_END"),
        'print(":::MLLOG {}".format(json.dumps(record)))',
        ":::MLLOG {'key': 'train_loss', 'value': 1.0}",
        '{"loss": 1.5, "step": 3}',
        ":::MLLOG " + '{"a":' * 50_000,
    ],
)
def test_what_holds_no_metric(line):
    assert points(line) == []


@pytest.mark.parametrize(
    "text", ["x" * 10_000_000, "1 " * 5_000_000, "a: " * 3_000_000, ":::MLLOG " * 1_000_000,
             ":::MLLOG {" * 500_000, "{'global_steps': " * 500_000, "{" * 5_000_000]
)  # fmt: skip
def test_time_is_linear(text):
    begin = time.process_time()
    parsed(text)
    assert time.process_time() - begin < 2.0


def reference(path, key):
    """(samples, value) of the messages of a key."""
    text = path.read_text(errors="replace")
    found = re.findall(
        rf'"key": "{key}", "value": ([-\d.e]+), .{{0,400}}?"samples_count": (\d+)', text
    )
    return {int(samples): float(value) for value, samples in found}


def test_corpus_losses_by_samples(corpus):
    path = corpus("mlperf5-scitix-llama2-70b-lora/result_0.txt")
    told = reference(path, "train_loss")
    run = read_run(path)
    assert len(told) == 38
    rows = run.signals.select("step", "loss").drop_nulls().rows()
    assert dict(rows) == {samples // 8: value for samples, value in told.items()}
    evaluated = run.signals.select("consumed_samples", "validation_loss").drop_nulls().rows()
    assert dict(evaluated) == reference(path, "eval_accuracy")


def test_corpus_tracked_stats(corpus):
    path = corpus("mlperf5-ibm-llama31-405b/result_0.txt")
    found = re.findall(
        r'"train_step_time": ([\d.]+), "reduced_train_loss": ([\d.]+)}.{0,200}?"step": ([\d.]+)',
        path.read_text(),
    )
    run = read_run(path)
    assert column(run, "step") == [int(float(s)) // 768 for _, _, s in found] == [*range(1, 361)]
    assert column(run, "loss") == [float(loss) for _, loss, _ in found]
    assert column(run, "step_time") == [float(seconds) for seconds, _, _ in found]
    assert column(run, "consumed_samples") == [int(float(s)) for _, _, s in found]
    evaluated = run.signals.select("step", "validation_loss").drop_nulls().rows()
    told = reference(path, "eval_accuracy")
    assert dict(evaluated) == {samples // 768: value for samples, value in told.items()}


def test_corpus_evaluations_only(corpus):
    path = corpus("mlperf4-dell-llama2-70b-lora/result_3.txt")
    told = reference(path, "eval_accuracy")
    run = read_run(path)
    assert dict(run.signals.select("consumed_samples", "validation_loss").rows()) == told
    assert column(run, "step") == [samples // 8 for samples in told]
    assert len(column(run, "samples_per_second")) == 5


def test_corpus_bert(corpus):
    path = corpus("mlperf21-samsung-bert/result_0.txt")
    found = re.findall(
        r"'global_steps': (\d+), 'eval_loss': ([\d.]+), 'eval_mlm_accuracy': ([\d.]+)",
        path.read_text(errors="replace"),
    )
    run = read_run(path)
    assert column(run, "step") == [int(step) for step, _, _ in found]
    assert column(run, "validation_loss") == [float(loss) for _, loss, _ in found]
    assert column(run, "validation_accuracy") == [float(accuracy) for _, _, accuracy in found]

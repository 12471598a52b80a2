"""Metrics as JSON lines."""

import json
import math
import time

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs.jsonl import FORMATS, JsonLines
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line

from ..conftest import REAL, column

CASES = REAL.parent / "cases"


def written(*records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def fed(*records):
    parser = JsonLines()
    items = [
        item
        for number, record in enumerate(records, 1)
        for item in parser.feed(
            Line(number, record if isinstance(record, str) else json.dumps(record))
        )
    ]
    return items, parser


def case(name: str):
    path = CASES / name / "metrics.jsonl"
    if not path.exists():
        pytest.skip("the cases are not at hand")
    return path


def test_one_object_a_line(read_text):
    run = read_text(
        written(
            {"step": 5, "train_loss": 3.5, "grad_norm": 0.5, "lr": 1e-4},
            {"step": 10, "train_loss": 3.25, "grad_norm": 0.25, "lr": 2e-4},
        )
    )
    assert run.reading["format"] == "jsonl"
    assert column(run, "step") == [5, 10]
    assert column(run, "loss") == [3.5, 3.25]
    assert column(run, "grad_norm") == [0.5, 0.25]
    assert column(run, "learning_rate") == [1e-4, 2e-4]


def test_bare_nan_infinity_and_numbers_as_text(read_text):
    run = read_text(
        '{"step": 1, "loss": NaN, "gnorm": Infinity, "tokens": "12.5K"}\n'
        '{"step": "2", "loss": "nan", "gnorm": "1,234.5", "tokens": "1.5M"}\n'
        '{"step": 3.0, "loss": "2.5", "gnorm": null, "tokens": "n/a"}\r\n'
    )
    losses = column(run, "loss")
    assert math.isnan(losses[0])
    assert math.isnan(losses[1])
    assert losses[2] == 2.5
    assert column(run, "step") == [1, 2, 3]
    assert column(run, "grad_norm") == [math.inf, 1234.5, None]
    assert column(run, "tokens") == [12_500.0, 1_500_000.0, None]


def test_nested_objects_are_flattened_and_envelopes_are_not_in_the_way():
    items, _ = fed(
        {"step": 1, "metrics": {"train/loss": 2.5, "optim": {"lr": [1e-3], "betas": [0.9, 0.95]}}},
        {"step": 2, "speed": {"wps": 100}, "hist": {"_type": "histogram", "bins": 3}, "ok": True},
    )
    assert [item.values for item in items] == [
        {"train/loss": 2.5, "optim/lr": 1e-3, "optim/betas/0": 0.9, "optim/betas/1": 0.95},
        {"speed/wps": 100.0},
    ]


def test_llamafactory(read_text):
    rows = [
        {"current_steps": 10, "total_steps": 40, "loss": 1.5, "lr": 1e-5, "epoch": 0.25,
         "percentage": 25.0, "elapsed_time": "0:01:10", "remaining_time": "0:03:30",
         "throughput": 2048.5, "total_tokens": 81920, "vram_allocated": 2.0, "vram_reserved": 3.0},
        {"current_steps": 10, "total_steps": 40, "eval_loss": 1.75, "epoch": 0.25,
         "percentage": 25.0, "elapsed_time": "0:01:30", "remaining_time": "1 day, 0:03:30"},
        {"current_steps": 40, "total_steps": 40, "epoch": 1.0, "percentage": 100.0,
         "elapsed_time": "0:04:10", "remaining_time": "0:00:00"},
    ]  # fmt: skip
    run = read_text(written(*rows))
    assert run.reading["format"] == "llamafactory"
    assert run.reading["facts"] == {"steps": 40}
    assert column(run, "step") == [10, 40]
    assert column(run, "loss") == [1.5, None]
    assert column(run, "validation_loss") == [1.75, None]
    assert column(run, "tokens_per_second") == [2048.5, None]
    assert column(run, "consumed_tokens") == [81920, None]
    assert column(run, "memory") == [2.0 * 2**30, None]
    assert column(run, "memory_reserved") == [3.0 * 2**30, None]
    assert set(run.signals.columns) == {
        "step", "attempt", "loss", "learning_rate", "epoch", "validation_loss",
        "tokens_per_second", "consumed_tokens", "memory", "memory_reserved",
    }  # fmt: skip


def test_ms_swift(read_text):
    rows = [
        {"loss": 1.5, "token_acc": 0.75, "grad_norm": 4.0, "learning_rate": 1e-6,
         "memory(GiB)": 2.5, "train_speed(s/it)": 4.0, "epoch": 0.1,
         "global_step/max_steps": "1/30", "percentage": "3.33%", "elapsed_time": "2s"},
        {"eval_loss": 1.25, "eval_token_acc": 0.5, "eval_runtime": 3.0, "epoch": 0.1,
         "global_step/max_steps": "1/30", "percentage": "3.33%"},
        {"train_runtime": 90.5, "train_loss": 1.0, "train_steps_per_second": 0.3, "epoch": 1.0,
         "global_step/max_steps": "30/30"},
        {"last_model_checkpoint": "out/checkpoint-30", "best_metric": 1.25, "global_step": 30,
         "log_history": [{"loss": 9.0, "step": 1}, {"loss": 8.0, "step": 2}], "memory": 2.5},
    ]  # fmt: skip
    run = read_text(written(*rows))
    assert column(run, "step")[0] == 1
    assert column(run, "loss") == [1.5, *[None] * (len(run.signals) - 1)]
    assert column(run, "validation_loss")[0] == 1.25
    assert column(run, "validation_accuracy")[0] == 0.5
    assert column(run, "accuracy")[0] == 0.75
    assert column(run, "step_time")[0] == 4.0
    assert column(run, "memory")[0] == 2.5 * 2**30
    assert run.reading["facts"]["steps"] == 30
    assert run.reading["facts"]["run_train_loss"] == 1.0


def test_levanter_prints_its_records_behind_a_logger(read_text):
    records = [
        {"tracker": "json_logger", "event": "hparams", "hparams": {"lr": 0.5, "loss": 1.0}},
        {"tracker": "json_logger", "event": "log", "step": 3,
         "metrics": {"train/loss": 4.5, "grad/norm/total": 0.25, "grad/norm/layers/1/w": 0.125}},
        {"tracker": "json_logger", "event": "log", "step": 4, "metrics": {"train/loss": 4.25}},
        {"tracker": "json_logger", "event": "summary", "metrics": {"train/loss": 4.25}},
        {"tracker": "json_logger", "event": "finish", "summary": {"train/loss": 4.25}},
    ]  # fmt: skip
    lines = [f"2025-01-02 03:04:05 - 0 - levanter - INFO :: {json.dumps(r)}\n" for r in records]
    run = read_text("".join(lines))
    assert column(run, "step") == [3, 4]
    assert column(run, "loss") == [4.5, 4.25]
    assert run.places == {"grad_norm": ("layers/1/w",)}
    assert [list(v) if v is not None else v for v in column(run, "grad_norm@places")] == [
        [0.125],
        None,
    ]
    assert column(run, "grad_norm") == [0.25, None]


def test_lingua_and_maxtext_keys(read_text):
    run = read_text(
        written(
            {"global_step": 7, "acc_step": 0, "loss/out": 2.5, "speed/wps": 10.0,
             "speed/curr_iter_time": 0.5, "optim/grad_norm": 1.5, "optim/lr": 0.25,
             "memory/max_active_gib": 1.5, "created_at": "2025-01-01T00:00:00"},
        )
    )  # fmt: skip
    assert column(run, "loss") == [2.5]
    assert column(run, "tokens_per_second") == [10.0]
    assert column(run, "step_time") == [0.5]
    assert column(run, "memory") == [1.5 * 2**30]
    run = read_text(
        written(
            {"learning/loss": 3.5, "learning/grad_norm": 0.5, "perf/step_time_seconds": 2.0,
             "perf/per_device_tflops_per_sec": 90.0, "perf/per_device_tokens_per_sec": 50.0,
             "learning/current_learning_rate": 1e-3, "step": 4.0, "run_name": "m"},
            {"eval/avg_loss": 3.75, "step": 4.0, "run_name": "m"},
        )
    )  # fmt: skip
    assert column(run, "step") == [4]
    assert column(run, "loss") == [3.5]
    assert column(run, "validation_loss") == [3.75]
    assert column(run, "grad_norm") == [0.5]
    assert column(run, "step_time") == [2.0]
    assert column(run, "tflops_per_device") == [90.0]
    assert column(run, "tokens_per_second_per_device") == [50.0]
    assert column(run, "learning_rate") == [1e-3]


def test_weights_and_biases_counts_calls_and_the_trainer_counts_steps(read_text):
    run = read_text(
        written(
            {"_step": 0, "_timestamp": 1.7e9, "_runtime": 3.0, "train/loss": 2.5,
             "train/global_step": 10},
            {"_step": 1, "_timestamp": 1.7e9 + 5, "_runtime": 8.0, "eval/loss": 2.75,
             "train/global_step": 10},
            {"_step": 2, "_timestamp": 1.7e9 + 9, "_runtime": 12.0, "system/gpu": 5.0},
            {"_step": 3, "_timestamp": 1.7e9 + 10, "_runtime": 13.0, "train/loss": 2.25,
             "train/global_step": 20},
        )
    )  # fmt: skip
    assert column(run, "step") == [10, 20]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "validation_loss") == [2.75, None]
    assert column(run, "timestamp") == [1.7e9, 1.7e9 + 10]
    assert column(run, "system_gpu") == [5.0, None]


def test_the_mean_of_the_run_is_not_a_loss(read_text):
    rows = [
        {"_step": 0, "train/loss": 2.5, "train/global_step": 10},
        {"_step": 1, "train/train_loss": 9.5, "train/train_runtime": 60, "train/global_step": 20},
    ]
    run = read_text(written(*rows))
    assert column(run, "loss") == [2.5, None]
    run = read_text("step,train_loss,loss,train_runtime\n1,,2.5,\n2,,2.25,\n2,9.5,,60\n")
    assert column(run, "loss") == [2.5, 2.25]


def test_the_time_as_text(read_text):
    text = written(
        {"timestamp": "2025-01-02T03:04:05Z", "step": 1, "loss": 2.5},
        {"timestamp": "2025-01-02T03:04:07Z", "step": 2, "loss": 2.25},
    )
    assert column(read_text(text), "timestamp") == [1735787045.0, 1735787047.0]


def test_only_the_logger_counts(read_text):
    run = read_text(written({"_step": 3, "loss": 2.0}, {"_step": 4, "loss": 1.5}))
    assert column(run, "step") == [3, 4]


def test_no_step_at_all_means_rows(read_text):
    run = read_text(written({"lr": 0.5, "seed": 1}, {"loss": 2.0}, {"loss": 1.5}, {"note": "x"}))
    assert column(run, "loss")[-2:] == [2.0, 1.5]
    assert run.reading["facts"]["steps_are"] == "rows"


def test_the_user_names_the_step_and_the_loss(read_text):
    text = written(
        {"step": 1, "k": 100, "train/ce": 2.5, "loss": 9.0},
        {"step": 1, "k": 200, "train/ce": 2.25, "loss": 9.0},
    )
    run = read_text(text, mapping={"loss": "train/ce", "step": "k"})
    assert column(run, "step") == [100, 200]
    assert column(run, "loss") == [2.5, 2.25]


def test_a_mapping_alone_makes_a_file_readable(read_text):
    text = written({"tick": 4, "q": 2.5}, {"tick": 8, "q": 2.25})
    with pytest.raises(LogError):
        read_text(text)
    run = read_text(text, mapping={"loss": "q", "step": "tick"})
    assert column(run, "step") == [4, 8]
    assert column(run, "loss") == [2.5, 2.25]


def test_records_like_the_one_before_mean_the_same_as_alone():
    rows = [
        {"step": 1, "loss": 2.5, "_timestamp": 1.7e9, "_step": 0},
        {"step": 2, "loss": 2, "_timestamp": 1.7e9 + 1, "_step": 1},
        {"step": 3, "loss": "2.25", "_timestamp": 1.7e12, "_step": 2},
        {"step": "4/9", "loss": None, "_timestamp": None, "_step": 3},
        {"step": 5.0, "loss": True, "_timestamp": 1.7e9, "_step": 4},
        {"step": 6, "loss": math.inf, "_timestamp": 1.7e9, "_step": 5},
        {"step": 7, "loss": {"ce": 1.5}, "_timestamp": 1.7e9, "_step": 6},
        {"step": 9, "loss": 10**400, "_timestamp": 1.7e9, "_step": 8},
        {"step": 8, "loss": [1.5, 2.5], "_timestamp": 1.7e9, "_step": 7},
    ]
    together, _ = fed(*rows)
    alone = [item for row in rows for item in fed(row)[0]]
    assert [(i.step, i.values, i.time, i.evaluation) for i in together if isinstance(i, Point)] == [
        (i.step, i.values, i.time, i.evaluation) for i in alone if isinstance(i, Point)
    ]
    evaluated, _ = fed({"step": 1, "eval_loss": 2.5}, {"step": 2, "eval_loss": 2.25})
    assert [item.evaluation for item in evaluated] == [True, True]


def test_events_are_notes():
    items, _ = fed(
        {"step": 10, "loss": 1.0},
        {"event": "checkpoint_saved", "path": "ckpt/step-10", "step": 10},
        {"event": "reboot", "at": 12},
        {"event": "restart", "resumed_from": "opt_step-10"},
        {"event": "resume", "checkpoint": 25, "loader_shard": 1},
        {"resumed_from": "out/global_step40/"},
        {"event": "step", "step": 11, "loss": 0.5},
    )
    notes = [(i.kind, i.step, dict(i.data)) for i in items if isinstance(i, Note)]
    assert notes == [
        ("checkpoint", 10, {"path": "ckpt/step-10"}),
        ("facts", None, {"event_reboot": {"at": 12}}),
        ("resumed", 10, {"resumed_from": "opt_step-10"}),
        ("resumed", 25, {"checkpoint": 25, "loader_shard": 1}),
        ("resumed", 40, {"resumed_from": "out/global_step40/"}),
    ]
    assert [(i.step, i.values) for i in items if isinstance(i, Point)] == [
        (10, {"loss": 1.0}),
        (11, {"loss": 0.5}),
    ]


def test_a_restart_is_an_attempt(read_text):
    rows = [{"step": s, "loss": 5.0 - s / 10} for s in (1, 2, 3, 4, 5)]
    run = read_text(written(*rows, *[{"step": s, "loss": 4.0 - s / 10} for s in (3, 4, 5, 6)]))
    spans = [(a["first"], a["last"]) for a in run.reading["attempts"]]
    assert spans == [(1, 5), (3, 6)]
    assert column(run, "loss") == [4.9, 4.8, 3.7, 3.6, 3.5, 3.4]


def test_a_validation_result_begins_no_attempt(read_text):
    rows = [
        {"step": 10, "loss": 2.0},
        {"step": 20, "loss": 1.5},
        {"step": 10, "eval/loss": 2.5},
        {"step": 30, "loss": 1.0},
    ]
    run = read_text(written(*rows))
    assert len(run.reading["attempts"]) == 1
    assert column(run, "validation_loss") == [2.5, None, None]


def test_the_last_line_is_cut(read_text):
    text = written({"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5})
    run = read_text(text[:-6])
    assert column(run, "step") == [1]
    assert run.problems == ("line 2: a JSON record that is cut short or damaged",)


def test_objects_glued_on_a_line_and_lists_over_lines(read_text):
    one = '{"step": 1, "loss": 2.0}{"step": 2, "loss": 1.5}\n'
    assert column(read_text(one), "loss") == [2.0, 1.5]
    many = '[\n  {"step": 1, "loss": 2.0},\n  {"step": 2, "loss": 1.5}\n]\n'
    assert column(read_text(many), "loss") == [2.0, 1.5]


@pytest.mark.parametrize(
    "line",
    [
        'print(f"{step}: {json.dumps({"loss": loss})}")',
        '{"message": "loss went down to 3.0 at step 7"}',
        ':::MLLOG {"namespace": "", "event_type": "POINT_IN_TIME", "key": "loss", "value": 1.0}',
        '{"namespace": "", "event_type": "POINT_IN_TIME", "key": "loss", "step": 1, "value": 1.0}',
        '{"train_batch_size": 16, "zero_optimization": {"stage": 1}}',
        "{'loss': 1.0, 'step': 1}",
        '"loss": 1.5, "step": 1',
        '{"step": 1}',
        '{"loss": ' + "[" * 100_000,
        "{" * 100_000 + '"',
    ],
)
def test_what_is_no_record(line):
    assert fed(line)[0] == []


@pytest.mark.parametrize(
    "text", ["x" * 10_000_000, "1 " * 5_000_000, "a: " * 3_000_000, '": ' * 3_000_000,
             '{"a":' * 1_000_000, '{"a": 1} ' * 200_000, '{"a":1}' * 200_000]
)  # fmt: skip
def test_time_is_linear(text):
    begin = time.process_time()
    fed(text)
    assert time.process_time() - begin < 2.0


def test_needles_are_in_what_is_written():
    for line in ('{"step": 1}', '{"step" : 1}'):
        assert any(needle in line for needle in FORMATS[1].needles)


@pytest.mark.parametrize("name", ["llamafactory-nsllm", "issue-llamafactory-8439-npu910b"])
def test_corpus(corpus, name):
    path = corpus(f"{name}/trainer_log.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    run = read_run(path)
    assert run.reading["format"] == "llamafactory"
    assert column(run, "step") == sorted({row["current_steps"] for row in rows})
    assert run.reading["facts"]["steps"] == rows[0]["total_steps"]
    for key, signal in (("loss", "loss"), ("lr", "learning_rate"), ("epoch", "epoch"),
                        ("eval_loss", "validation_loss")):  # fmt: skip
        told = {row["current_steps"]: row[key] for row in rows if key in row}
        got = dict(run.signals.select("step", signal).drop_nulls().rows()) if told else {}
        assert repr(got) == repr(dict(sorted(told.items())))


def test_case_of_a_restart_without_its_schedule():
    run = read_run(case("09-accelerate-lr-restart"))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [
        (28960, 29000),
        (29005, 29100),
    ]
    at = run.signals.filter(run.signals["step"] == 29005)
    assert at["learning_rate"].to_list() == [9.375e-08]
    assert [(e.kind, e.step) for e in run.events] == [("resumed", 29000)]


def test_case_of_a_loader_that_began_again():
    path = case("23-loader-restart-repeat")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    run = read_run(path)
    resumed = [event for event in run.events if event.kind == "resumed"]
    assert [(e.step, e.data["loader_shard"], e.data["loader_offset"]) for e in resumed] == [
        (25000, 1, 0)
    ]
    last = {row["step"]: row["val_ppl"] for row in rows if "step" in row}
    assert dict(run.signals.select("step", "validation_perplexity").rows()) == last


@pytest.mark.parametrize(
    ("name", "key", "signal"),
    [
        ("19-levanter-small-unrecovered", "train_loss", "loss"),
        ("21-levanter-cooldown-creep", "norm_lm_head", "norm_lm_head"),
        ("31-rewarm-healthy", "lr", "learning_rate"),
    ],
)
def test_cases(name, key, signal):
    path = case(name)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    run = read_run(path)
    assert column(run, "step") == [row["step"] for row in rows]
    assert column(run, signal) == [row[key] for row in rows]
    assert len(run.signals.columns) == len(rows[0]) + 1


def test_how_ms_swift_ends_is_no_step(read_text):
    run = read_text(
        '{"loss": 2.5, "learning_rate": 1e-05, "epoch": 0.5, "global_step/max_steps": "5/10"}\n'
        '{"train_runtime": 100.5, "train_loss": 2.0, "global_step/max_steps": "10/10"}\n'
        '{"last_model_checkpoint": "output/v0/checkpoint-10", "best_metric": 1.5, "global_step": '
        '10, "log_history": [{"loss": 2.5, "step": 5}], "memory": 40.0}\n',
        "logging.jsonl",
    )
    assert run.signals["step"].to_list() == [5]
    assert "best_metric" not in run.signals.columns
    assert run.reading["facts"]["run_best_metric"] == 1.5
    assert [(info.step, info.path) for info in run.checkpoints] == [(10, "output/v0/checkpoint-10")]

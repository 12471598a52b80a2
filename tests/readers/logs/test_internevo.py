"""InternEvo: pairs with blanks or commas, norms of groups, and updates that were skipped."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.internevo import InternEvo, pairs
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line


def record(step, loss, skipped=0, norm="{'0_default': 3.0, '1_fp32': 4.0}"):
    return (
        "2024-11-24 02:35:28,500 INFO pipeline.py:770 in record_current_batch_training_metrics -- "
        f"tflops=229.5 step={step} loss={loss} real_tgs=719.5 tgs (tokens/gpu/second)=720.5 "
        f"tgs/last_tgs_1=720.25 lr=9.5e-05 loss_scale=16384.0 grad_norm={norm} micro_num=16 "
        f"num_consumed_tokens=674234368 inf_nan_skip_batches={skipped} largest_length=7543 "
        "fwd_bwd_time=181.5 acc=0.5 perplexity=9.25 acc/en=0.25 loss/en=2.25 loss/cn=nan\n"
    )


def test_every_field(read_text):
    run = read_text(record(642, 2.125))
    assert run.reading["format"] == "internevo"
    row = run.signals.row(0, named=True)
    expected = {
        "step": 642,
        "loss": 2.125,
        "tflops_per_device": 229.5,
        "real_tgs": 719.5,
        "tokens_per_second_per_device": 720.5,
        "tgs_last_tgs_1": 720.25,
        "learning_rate": 9.5e-5,
        "loss_scale": 16384.0,
        "grad_norm": 5.0,
        "micro_num": 16.0,
        "consumed_tokens": 674234368,
        "inf_nan_skip_batches": 0.0,
        "largest_length": 7543.0,
        "fwd_bwd_time": 181.5,
        "accuracy": 0.5,
        "perplexity": 9.25,
        "acc_en": 0.25,
        "loss_en": 2.25,
        "timestamp": 1732415728.5,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert math.isnan(row["loss_cn"])
    assert run.places["grad_norm"] == ("0_default", "1_fp32")
    assert row["grad_norm@places"] == [3.0, 4.0]


def test_commas_and_a_norm_that_is_a_number(read_text):
    run = read_text(
        "2023-07-07 12:28:57,802\tINFO train.py:323 in record_current_batch_training_metrics -- "
        "tflops=63.5,step=0,loss=11.5,tgs (tokens/gpu/second)=1424.5,lr=4e-07,loss_scale=65536.0,"
        "grad_norm=63.5,micro_num=4,num_consumed_tokens=131072,inf_nan_skip_batches=0\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["grad_norm"], row["micro_num"]) == (0, 11.5, 63.5, 4.0)
    assert (row["consumed_tokens"], row["tokens_per_second_per_device"]) == (131072, 1424.5)


def test_norms_that_stand_for_overflow_and_nan():
    told = pairs("grad_norm={'0_default': -1, '1_fp32': 0.0}")
    assert told["grad_norm"] == math.inf
    assert told["grad_norm/0_default"] == math.inf
    assert math.isnan(pairs("grad_norm={'0_default': -2, '1_fp32': 3.0}")["grad_norm"])
    assert pairs("grad_norm={'0_default': 0.5, '1_fp32': 0.0}")["grad_norm"] == 0.5


def test_skipped_updates_are_told_once(read_text):
    warning = "2024-11-24 02:35:30,000 WARNING {} occurs, please check it.\n"
    run = read_text(
        record(1, 3.0)
        + warning.format("Overflow")
        + record(2, 2.9, skipped=1)
        + record(3, 2.8, skipped=1)
        + record(4, 2.7, skipped=2)
        + warning.format("Nan grad norm")
    )
    assert [(e.kind, e.step) for e in run.events] == [
        ("update_skipped", 2),
        ("update_skipped", 4),
        ("update_skipped", 5),
    ]
    assert run.signals["update_skipped"].to_list() == [None, 1, None, 1, 1]
    assert run.signals["loss"].to_list() == [3.0, 2.9, 2.8, 2.7, None]


def test_validation(read_text):
    run = read_text(
        record(50, 3.0)
        + "2024-11-24 02:36:28,500 INFO evaluation.py:170 in evaluate_on_val_dls -- Validation on "
        "en: step=50 val/en_loss=2.5 val/en_acc=0.5 val/en_plex=12.25\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["validation_loss"]) == (50, 3.0, 2.5)
    assert (row["validation_accuracy"], row["validation_perplexity"]) == (0.5, 12.25)


@pytest.mark.parametrize("name", ["internevo-docs/20B_demo.rst", "internevo-docs/usage.md"])
def test_real_docs_by_a_plain_parse(corpus, name):
    path = corpus(name)
    run = read_run(path)
    told = re.findall(
        r"tflops=([\d.]+).step=(\d+).loss=([\d.]+).tgs \(tokens/gpu/second\)=([\d.]+)[^{\n]*?"
        r"lr=([\d.e-]+).loss_scale=([\d.]+).grad_norm=(?:\{'0_default': )?([\d.]+)"
        r"(?:, '1_fp32': 0.0\})?.micro_num=4.num_consumed_tokens=(\d+)",
        path.read_text(),
    )
    columns = (
        "tflops_per_device", "step", "loss", "tokens_per_second_per_device", "learning_rate",
        "loss_scale", "grad_norm", "consumed_tokens",
    )  # fmt: skip
    assert run.reading["format"] == "internevo"
    assert len(told) == len(run.signals) == 6
    for row, numbers in zip(run.signals.rows(named=True), told, strict=True):
        assert [row[c] for c in columns] == pytest.approx([float(n) for n in numbers])


def test_a_nan_at_the_end_of_a_real_log(corpus):
    run = read_run(corpus("../cases/34-internevo-nan-skip/train.log"))
    rows = run.signals.select("step", "loss", "update_skipped").rows()
    assert rows == [(642, 2.1725409030914307, None), (643, 2.046380043029785, None), (644, None, 1)]
    assert run.signals["grad_norm"].to_list()[:2] == [2.156615516531637, 1.7590333217221075]
    assert run.signals["largest_length"].to_list() == [7543.0, 6803.0, None]
    assert run.signals["smallest_batch"].to_list() == [2.0, None, None]  # the second one is cut
    assert [(e.kind, e.step) for e in run.events] == [("update_skipped", 644)]


def test_a_restart(read_text):
    run = read_text("".join(record(step, 9 - step) for step in [1, 2, 3, 4, 5, 2, 3]))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 5), (2, 3)]


@pytest.mark.parametrize(
    "text",
    [
        'infos = {"tflops": tflops, "step": batch_count, "tgs (tokens/gpu/second)": tk_per_gpu}',
        "tgs is measured in tokens, loss=2.5 at step=3.5",
        "step=5 loss=2.5 lr=1e-4",
        "| TGS | 4078 | 3939 |",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert [i for i in InternEvo().feed(Line(1, text)) if isinstance(i, Point | Note)] == []


@pytest.mark.parametrize(
    "text",
    [
        "tgs loss=" + "x" * 2**20,
        "tgs loss= tflops=" + "1 " * 2**19,
        "tgs loss= step=" + "a: " * 2**18,
        "tgs loss= step=" + "a/b.c(" * 2**17,
        "tgs loss= step=1 " + "grad_norm={" * 2**16,
        "tgs loss= step=1 grad_norm={" + "'a': 1, " * 2**16,
        "Validation on " * 2**16,
        "tgs loss= step=" + "1" * 2**20 + "x",
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(InternEvo().feed(Line(1, text)))
    assert time.process_time() - begin < 1.5


def test_a_key_may_hold_a_hyphen(read_text):
    run = read_text(
        "2023-11-10 11:46:16,409 INFO train.py:600 in record_current_batch_training_metrics -- "
        "tflops=30.5 step=0 loss=11.5 lr=4e-07 acc/README-zh-Hans.md=0.25 acc/en=0.5\n"
    )
    fields = {field["key"]: column for column, field in run.reading["fields"].items()}
    assert run.signals[fields["acc/README-zh-Hans.md"]].to_list() == [0.25]
    assert "Hans.md" not in fields

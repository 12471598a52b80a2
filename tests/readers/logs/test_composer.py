"""Composer and LLM Foundry: blocks under a heading."""

import math
import time

import pytest

from surefoot.readers.logs.composer import Composer
from surefoot.readers.text import Line

LOG = """\
******************************
Config:
max_duration: 100ba
******************************
[batch=1/100]:
\t Train time/epoch: 0
\t Train time/batch: 0
\t Train time/token: 0
\t Train metrics/train/LanguageCrossEntropy: 10.7500
\t Train loss/train/total: 10.5000
\t Train lr-DecoupledAdamW/group0: 0.0001
\t Train l2_norm/grad/global: 2.5000
\t Train l2_norm/grad/model.blocks.3.ffn.weight: 0.2500
\t Train throughput/device/tokens_per_sec: 1500.0000
\t Train throughput/tokens_per_sec: 12000.0000
\t Train throughput/device/mfu: 0.4150
\t Train memory/peak_reserved_mem: 20.5000
\t Train time/remaining_estimate_unit: "hours"
\t Train metrics/train/LanguagePerplexity: 46630.0000
[batch=2/100]:
\t Train time/batch: 1
\t Train loss/train/total: nan
[Eval batch=1/3] Eval on eval data
[Eval batch=3/3] Eval on eval data:
\t Eval metrics/eval/LanguageCrossEntropy: 9.2500
\t Eval metrics/eval/LanguagePerplexity: 10404.5000
Logger: checkpoint saved to: /c/ep0-ba2-rank0.pt
Loading checkpoint from /c/ep0-ba2-rank0.pt
[batch=2/100]:
\t Train loss/train/total: 9.7500
\t Train time/bat"""


def test_every_field(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "composer"
    assert run.reading["facts"]["steps"] == 100
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 2), (2, 2)]
    one, two = run.signals.rows(named=True)
    expected = {
        "loss": 10.5, "learning_rate": 1e-4, "grad_norm": 2.5, "consumed_tokens": 0,
        "tokens_per_second_per_device": 1500.0, "tokens_per_second": 12000.0, "mfu": 0.415,
        "memory_reserved": 20.5e9, "perplexity": 46630.0,
        "metrics_train_languagecrossentropy": 10.75,
    }  # fmt: skip
    assert {key: one[key] for key in expected} == pytest.approx(expected)
    assert run.places == {"grad_norm": ("model.blocks.3.ffn.weight",)}
    assert one["grad_norm@places"] == [0.25]
    assert two["loss"] == 9.75
    lost = run.superseded.row(0, named=True)
    assert math.isnan(lost["loss"])
    assert lost["validation_loss"] == 9.25
    assert [(e.kind, e.step) for e in run.events] == [("checkpoint", 2), ("resumed", 2)]


def test_older_keys_without_a_group(read_text):
    run = read_text(
        "[batch=1/9]:\n         Train LanguageCrossEntropy: 10.5000\n         Train Perplexity: "
        "36315.5000\n         Train loss/train/total: 10.6250\n"
    )
    row = run.signals.row(0, named=True)
    assert row["loss"] == 10.625
    assert row["perplexity"] == 36315.5
    assert row["languagecrossentropy"] == 10.5


def test_epochs_and_lengths_in_tokens(read_text):
    run = read_text(
        "[epoch=1][batch=40/50]:\n\t Train loss/train/total: 3.5000\n"
        "[epoch=2][batch=10/50]:\n\t Train loss/train/total: 3.2500\n"
    )
    assert run.signals.select("step", "loss").rows() == [(40, 3.5), (60, 3.25)]
    run = read_text(
        "[token=4096/1000000]:\n\t Train time/batch: 7\n\t Train loss/train/total: 3.5000\n"
        "[sample=8/1000]:\n\t Train loss/train/total: 3.2500\n"
    )
    assert run.signals.select("step", "loss").rows() == [(8, 3.5)]


@pytest.mark.parametrize(
    "text", ["f'[batch={cur_batch}/{total}]'", "\t Train loss: 2.5", "[a=1/2]:"]
)
def test_what_is_no_record(text):
    parser = Composer()
    told = [*parser.feed(Line(1, text)), *parser.feed(Line(2, "\t Train x: 1")), *parser.finish()]
    assert told == []


@pytest.mark.parametrize("text", ["x" * 10**7, "\t Train " + "a: " * 10**6, "[batch=1/" * 10**6])
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    parser = Composer()
    list(parser.feed(Line(1, "[batch=1/2]:")))
    list(parser.feed(Line(2, text)))
    assert time.process_time() - begin < 1.0

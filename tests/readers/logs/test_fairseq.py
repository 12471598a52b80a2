"""fairseq and metaseq: pipes, simple lines, JSON. Losses are in base 2."""

import json
import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.fairseq import Fairseq
from surefoot.readers.text import Line

LN2 = math.log(2.0)


def test_json_of_the_documentation(corpus):
    path = corpus("fairseq-fsdp-docs/README.md")
    text = path.read_text()
    runs = [
        [json.loads(found) for found in re.findall(r"train_inner \| (\{.*\})", part)]
        for part in text.split("### 13B params on 8")
    ]
    assert [len(rows) for rows in runs] == [10, 10]
    run = read_run(path)
    assert run.reading["format"] == "fairseq"
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 10), (1, 10)]
    for frame, rows in zip((run.superseded, run.signals), runs, strict=True):
        assert frame["step"].to_list() == [int(row["num_updates"]) for row in rows]
        assert frame["loss"].to_list() == pytest.approx([float(row["loss"]) * LN2 for row in rows])
        for key, name in [
            ("gnorm", "grad_norm"), ("lr", "learning_rate"), ("loss_scale", "loss_scale"),
            ("wps", "tokens_per_second"), ("ppl", "perplexity"), ("wpb", "tokens"),
        ]:  # fmt: skip
            assert frame[name].to_list() == pytest.approx([float(row[key]) for row in rows])
    assert run.signals["validation_loss"][-1] == pytest.approx(16.624 * LN2)
    assert run.superseded["validation_loss"][-1] == pytest.approx(17.953 * LN2)
    # The mean of the epoch is no loss of a step.
    assert run.signals["epoch_mean_loss"][-1] == pytest.approx(18.114 * LN2)
    assert sum(event.kind == "update_skipped" for event in run.events) == 4
    assert run.reading["facts"]["world_size"] == 1


def test_the_old_log(corpus):
    run = read_run(corpus("issue-fairseq-512/issue512.log"))
    row = run.signals.row(0, named=True)
    assert len(run.signals) == 1
    assert row["step"] == 10198
    assert row["loss"] == pytest.approx(6.343 * LN2)
    assert row["nll_loss"] == pytest.approx(4.984 * LN2)
    assert row["grad_norm"] == 0.390
    assert row["loss_scale"] == 0.5
    assert row["learning_rate"] == 0.000626286
    assert row["tokens_per_second"] == 164346
    assert row["validation_loss"] == pytest.approx(8.30118 * LN2)
    assert row["validation_perplexity"] == 142.39
    assert row["clipped_share"] == 0.0
    assert row["best_validation_loss"] == pytest.approx(4.46376 * LN2)
    skipped = [event for event in run.events if event.kind == "update_skipped"]
    assert len(skipped) == 12
    assert skipped[0].data["loss_scale"] == 0.25
    assert skipped[-1].data["loss_scale"] < 2e-4


SIMPLE = """\
2021-01-01 10:00:00 | INFO | fairseq_cli.train | training on 16 devices (GPUs/TPUs)
2021-01-01 10:01:00 | INFO | train_inner | epoch 001:    100 / 1000 loss=12.5, nll_loss=12, \
ppl=4096, wps=1000.5, ups=0.5, wpb=2048, bsz=16, num_updates=100, lr=1e-05, gnorm=2.5, clip=50, \
loss_scale=64, train_wall=99, gb_free=9.5, wall=105
2021-01-01 10:01:30 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring \
gradient, setting loss scale to: 32.0
2021-01-01 10:02:00 | INFO | train_inner | epoch 001:    200 / 1000 loss=nan, num_updates=199, \
lr=2e-05, gnorm=inf, clip=100
2021-01-01 10:03:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 10 | nll_loss 9.5 \
| ppl 724.08 | num_updates 199 | best_loss 10
2021-01-01 10:03:00 | INFO | valid | epoch 001 | valid on 'wiki' subset | loss 11 | num_updates 199
2021-01-01 10:03:01 | INFO | train | epoch 001 | loss 13.25 | ppl 9742 | num_updates 199 | lr 2e-05
2021-01-01 10:03:02 | INFO | fairseq.checkpoint_utils | Saved checkpoint /c/checkpoint1.pt \
(epoch 1 @ 199 updates, score 10.0) (writing took 3.5 seconds)
2021-01-01 11:00:00 | INFO | fairseq.trainer | Loaded checkpoint /c/checkpoint1.pt (epoch 2 @ 199 \
updates)
2021-01-01 11:01:00 | INFO | train_inner | epoch 002:    1 / 1000 loss=9.5, num_updates=200, lr=3"""


def test_simple_lines(read_text):
    run = read_text(SIMPLE)
    assert run.reading["facts"]["world_size"] == 16
    rows = {row["step"]: row for row in run.signals.rows(named=True)}
    assert rows[100]["loss"] == pytest.approx(12.5 * LN2)
    assert rows[100]["nll_loss"] == pytest.approx(12 * LN2)
    expected = {
        "perplexity": 4096.0, "tokens_per_second": 1000.5, "updates_per_second": 0.5,
        "tokens": 2048, "batch_size": 16, "learning_rate": 1e-5, "grad_norm": 2.5,
        "clipped_share": 0.5, "loss_scale": 64.0, "memory_free": 9.5 * 2**30,
    }  # fmt: skip
    assert {key: rows[100][key] for key in expected} == pytest.approx(expected)
    assert math.isnan(rows[199]["loss"])
    assert rows[199]["grad_norm"] == math.inf
    assert rows[199]["validation_loss"] == pytest.approx(10 * LN2)
    assert rows[199]["validation_nll_loss"] == pytest.approx(9.5 * LN2)
    assert rows[199]["epoch_mean_loss"] == pytest.approx(13.25 * LN2)
    assert rows[199]["wiki_loss"] == 11.0
    assert rows[200]["loss"] == pytest.approx(9.5 * LN2)
    assert [(e.kind, e.step) for e in run.events] == [
        ("update_skipped", None),
        ("checkpoint", 199),
        ("resumed", 199),
    ]
    assert len(run.reading["attempts"]) == 2
    assert run.checkpoints[0].path == "/c/checkpoint1.pt"


def test_a_drawn_bar_and_raw_json(read_text):
    run = read_text(
        "| epoch 001:  10%|#   | 100/1000 [00:31<04:40,  3.2it/s, loss=8.5, num_updates=100]\n"
        '{"epoch": 1, "update": 0.2, "loss": "7.5", "num_updates": "200", "lr": "0.0001"}\n'
    )
    assert run.signals["step"].to_list() == [100, 200]
    assert run.signals["loss"].to_list() == pytest.approx([8.5 * LN2, 7.5 * LN2])
    assert run.signals["epoch"].to_list() == [None, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "| epoch 3 | loss 2.5 | lr 0.1",
        "epoch 001 | valid on 'valid' subset",
        '{"epoch": 1, "loss": 2.5, "step": 3}',
        "after num_updates 10 it stopped",
        "Epoch 001 | loss 2.5 | num_updates 5",
    ],
)
def test_what_is_no_record(text):
    assert list(Fairseq().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "epoch 001 | loss " + "| " * 10**6, '{"epoch": 1, ' + '"a": ' * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(Fairseq().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_summaries_of_epochs_stand_for_the_loss_where_nothing_else_is_told(read_text):
    record = (
        '2020-02-07 13:21:07 | INFO | train | {{"epoch": {0}, "train_loss": "{1}", '
        '"train_ppl": "32", "train_num_updates": "{2}", "train_gnorm": "1.5"}}\n'
    )
    run = read_text(record.format(1, 8.0, 100) + record.format(2, 4.0, 200))
    assert run.signals["step"].to_list() == [100, 200]
    assert run.signals["loss"].to_list() == pytest.approx([8.0 * math.log(2), 4.0 * math.log(2)])
    assert run.signals["grad_norm"].to_list() == [1.5, 1.5]

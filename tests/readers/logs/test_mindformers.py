"""MindFormers: records of its loss monitor in all versions, and MindSpore's own."""

import math
import time

import pytest

from surefoot.readers.logs.mindformers import MindFormers
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line

HEAD = "2025-04-07 15:34:27,500 - [mindformers/core/callback/callback.py:529] - INFO - "
LOG = f"""\
{HEAD}{{ Epoch:[  1/  2], step:[   18/   19], loss: 10.625, per_step_time: 1752ms, lr: 1.25e-05, \
overflow cond: False, loss_scale: 65536.0, global_norm: [1.5], train_throughput_per_npu: 170.738T
{HEAD}   0.0% |                                       | 0.50000 samples/s/p  25 days, 2:07:47 }}
{HEAD}{{ Epoch:[  1/  2], step:[   19/   19], loss:[10.500/10.562], per_step_time: 1750ms, \
lr: 0.0, overflow cond: True, loss_scale: 32768.0, global_norm [nan]
{HEAD}{{ Epoch:[  2/  2], step:[    1/   19], loss: nan, lm_loss: 9.5, aux_loss: 0.125, mtp_loss: \
3.5, per_step_time: 1750ms, overflow cond: False, loss_scale: 1.0, global_norm: [44.25]
{HEAD}opt_global_step: 0, skip_data_grad_norm_threshold: 3.0, is_skip: [ True]
"""


def test_every_field(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "mindformers"
    first, second, third = run.signals.rows(named=True)
    expected = {
        "step": 18,
        "epoch": 1.0,
        "loss": 10.625,
        "step_time": 1.752,
        "learning_rate": 1.25e-5,
        "loss_scale": 65536.0,
        "grad_norm": 1.5,
        "tflops_per_device": 170.738,
        "samples_per_second_per_device": 0.5,
        "timestamp": 1744040067.5,
    }
    assert {key: first[key] for key in expected} == pytest.approx(expected)
    assert (second["step"], second["loss"], second["learning_rate"]) == (19, 10.5, 0.0)
    assert math.isnan(second["grad_norm"])
    assert (third["step"], third["epoch"], third["grad_norm"]) == (20, 2.0, 44.25)
    assert math.isnan(third["loss"])
    assert third["lm_loss"] == 9.5
    assert third["mtp_loss"] == 3.5
    assert third["load_balancing_loss"] == 0.125
    assert third["learning_rate"] is None
    # An overflow of step 19; data skipped for its norm at step 20.
    assert run.signals["update_skipped"].to_list() == [None, 1, 1]
    assert run.reading["facts"]["steps"] == 38


def test_a_damaged_norm_is_left_out():
    text = "{ Epoch:[  1/  2], step:[    1/   19], loss: 10.5, lr: 0.5, global_norm: [1 31049]"
    point = next(i for i in MindFormers().feed(Line(1, text)) if isinstance(i, Point))
    assert point == Point(1, {"epoch": 1.0, "loss": 10.5, "lr": 0.5}, 1)


def test_mindspores_monitor_counts_over_epochs():
    parser, told = MindFormers(), []
    for epoch in (1, 2):
        for step in (1, 2, 3):
            text = f"epoch: {epoch} step: {step}, loss is {10 - epoch - step / 4}"
            told += [i for i in parser.feed(Line(1, text)) if isinstance(i, Point)]
    assert [point.step for point in told] == [1, 2, 3, 4, 5, 6]
    assert told[4].values == {"loss": 7.5, "epoch": 2.0}


def test_a_restart(read_text):
    def told(step):
        return f"{HEAD}{{ Epoch:[  1/  2], step:[ {step:4}/   19], loss: {9 - step}.500, lr: 0.5\n"

    run = read_text("".join(map(told, [1, 2, 3, 4, 5, 6, 3, 4])))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 6), (3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        '"{ Epoch:[%3d/%3d], step:[%5d/%5d], loss: %5.3f, "',
        "[step=5/100,epoch=0]",
        "epoch: 1, step 3, loss is small",
        "the loss is 2.5",
        "{'loss': 2.5, 'step': 10}",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert [i for i in MindFormers().feed(Line(1, text)) if isinstance(i, Point | Note)] == []


@pytest.mark.parametrize(
    "text",
    [
        "step:[" + "x" * 2**20,
        "{ step:[ 1/ 2], " + "1 " * 2**19,
        "{ step:[ 1/ 2], " + "a: " * 2**18,
        "{ Epoch:[" * 2**16,
        "1" * 2**20 + " samples/s/p",
        "1 " * 2**19 + "samples/s/p",
        "is_skip: [" + " " * 2**20,
        "epoch: 1 step: 1, loss is " * 2**15,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(MindFormers().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_a_record_that_ends_with_a_bracket(read_text):
    """Newer ones: no epoch, and a blank before the closing bracket."""
    run = read_text(
        "{ step:[    1/   10], loss:  11.750000, per_step_time:  13570ms, lr: 1.000000e-05, "
        "grad_norm:  13.500000, throughput:   1.25T }\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["grad_norm"]) == (1, 11.75, 13.5)
    assert (row["step_time"], row["tflops_per_device"]) == (13.57, 1.25)

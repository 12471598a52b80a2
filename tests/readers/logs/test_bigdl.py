"""BigDL, old and new."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.bigdl import BigDL
from surefoot.readers.text import Line


def test_the_real_log(corpus):
    path = corpus("issue-ipex-llm-1486/issue1486.log")
    found = re.findall(
        r"Iteration (\d+)\].*? in (\S+?)seconds. Throughput is (\S+) .*?Loss is (\S+)\. Current "
        r"learning rate is (\S+)\. ",
        path.read_text(),
    )
    run = read_run(path)
    assert run.reading["format"] == "bigdl"
    names = ("step", "step_time", "samples_per_second", "loss", "learning_rate")
    assert run.signals.select(names).rows() == [tuple(map(float, row)) for row in found]
    assert len(found) == 4
    assert run.signals["loss"][2] == math.inf
    assert run.signals["batch_size"].to_list() == [1792] * 4
    assert run.signals["current_weight_decay"].to_list() == [1e-4] * 4
    assert run.signals["wall_clock"][0] == 197331.83477254


def test_versions_validation_and_checkpoints(read_text):
    run = read_text(
        "18/01/01 10:00:00 INFO  DistriOptimizer$:1 - [Epoch 1 128/1000][Iteration 1][Wall Clock "
        "2.5s] Trained 128 records in 2.5 seconds. Throughput is 51.2 records/second. Loss is "
        "NaN. Sequential1234's hyper parameters: Current learning rate is 0.05. \n"
        "[Epoch 1 256/1000][Iteration 2][Wall Clock 5.0s] loss is 2.25, iteration time is 1.5s "
        "data fetch time is 0.25s, train time 1.25s. Throughput is 64.5 img / second\n"
        "18/01/01 10:00:01 INFO  DistriOptimizer$:1 - Loss is (Loss: 12.5, count: 10, Average "
        "Loss: 1.25)\n"
        "18/01/01 10:00:01 INFO  DistriOptimizer$:1 - Top1Accuracy is Accuracy(correct: 3, count: "
        "4, accuracy: 0.75)\n"
        "[Wall Clock 6.0s] Save model to /tmp/models\n"
    )
    one, two = run.signals.rows(named=True)
    assert math.isnan(one["loss"])
    assert one["batch_size"] == 128
    assert one["step_time"] == 2.5
    assert one["samples_per_second"] == 51.2
    assert one["learning_rate"] == 0.05
    assert two["loss"] == 2.25 or 2.25 in two.values()
    assert 1.5 in two.values()
    assert 64.5 in two.values()
    assert 0.25 in two.values()
    assert two["validation_loss"] == 1.25
    assert two["validation_top1accuracy"] == 0.75
    assert (run.checkpoints[0].step, run.checkpoints[0].path) == (2, "/tmp/models")


@pytest.mark.parametrize(
    "text",
    [
        's"[Epoch $epoch $count/$total][Iteration $iter][Wall Clock ${wallClockTime / 1e9}s]"',
        "[Epoch 1 2/3][Iteration 4][Wall Clock 5.0s] Validate model...",
        "Loss is 2.5 in step 3",
    ],
)
def test_what_is_no_record(text):
    assert list(BigDL().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text",
    ["x" * 10**7, "[Epoch 1 2/3][Iteration 4][Wall Clock 1s] " + "loss " * 10**6, "a is " * 10**6],
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(BigDL().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

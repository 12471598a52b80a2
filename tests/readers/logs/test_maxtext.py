"""MaxText of three generations."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.maxtext import MaxText
from surefoot.readers.text import Line


def test_the_log_of_its_documentation(corpus):
    path = corpus("maxtext-docs/understand_logs_and_metrics.md")
    found = re.findall(
        r"completed step: (\d+), seconds: (\S+), TFLOP/s/device: (\S+), Tokens/s/device: (\S+), "
        r"total_weights: (\d+), loss: (\S+)",
        path.read_text(),
    )[:10]  # further lines of the text are other runs
    run = read_run(path)
    assert run.reading["format"] == "maxtext"
    names = (
        "step", "step_time", "tflops_per_device", "tokens_per_second_per_device", "tokens", "loss",
    )  # fmt: skip
    assert run.signals.select(names).rows() == [tuple(map(float, row)) for row in found]
    # Four devices are named, so the rate of all of them is known too.
    assert set(run.signals.columns) == {*names, "attempt", "tokens_per_second"}
    assert run.signals["tokens_per_second"][0] == pytest.approx(4 * 1094.129)


def test_three_generations_and_evaluation(read_text):
    run = read_text(
        "number parameters: 1.250 billion\nNum_devices: 16\n"
        "completed step: 0, seconds: 8.500, TFLOP/s: 1.750, loss: 9.250\n"
        "completed step: 1, seconds:  0.500, TFLOP/s/device: 72.500,  loss: nan\n"
        "saved a checkpoint at step 1\n"
        "completed step: 2, seconds: 0.250, TFLOP/s/device: 8.500, Tokens/s/device: 512.500, "
        "total_weights: 2048.0, loss: 8.125, main_model_loss: 8.000, mtp_loss: 0.125\n"
        "eval metrics after step: 2, loss=8.500, total_weights=4096.0\n"
        "average loss after step=2: eval_step_count=10, eval_loss=8.625, total_weights=99\n"
        "restoring from this run's directory step 1\n"
        "completed step: 2, seconds: 0.2"
    )
    assert run.reading["facts"] == {"parameters": 1_250_000_000, "world_size": 16}
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 2), (2, 2)]
    zero, one, _ = run.signals.rows(named=True)
    assert zero["loss"] == 9.25
    assert zero["step_time"] == 8.5
    assert 1.75 in zero.values()
    assert math.isnan(one["loss"])
    assert 72.5 in one.values()
    two = run.superseded.row(0, named=True)
    assert two["loss"] == 8.125
    assert two["tokens_per_second_per_device"] == 512.5
    assert two["tokens"] == 2048
    assert two["mtp_loss"] == 0.125
    assert two["main_model_loss"] == 8.0
    assert two["validation_loss"] == 8.5
    assert two["eval_total_weights"] == 4096.0
    assert [info.step for info in run.checkpoints] == [1]


@pytest.mark.parametrize(
    "text",
    [
        'f"completed step: {step}, seconds: {x:.3f}, "',
        "completed step: install",
        "INFO Completed step: 3",
        "step: 5, loss: 2.5",
    ],
)
def test_what_is_no_record(text):
    assert list(MaxText().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "completed step: 1, s" + "1 " * 10**6, "completed step: " * 10**5]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(MaxText().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_a_line_quoted_as_code_and_the_flops_of_2023(read_text):
    run = read_text(
        "`completed step: 9, seconds: 1.25, TFLOP/s/device: 257.5, loss: 2.250`\n"
        "completed step: 10, seconds: 1.25, TFLOP/s: 36.5, loss: nan\n"
    )
    assert run.signals["step"].to_list() == [9, 10]
    assert run.signals["loss"][0] == 2.25
    old = read_text("completed step: 10, seconds: 1.25, TFLOP/s: 36.5, loss: 2.5\n")
    assert old.signals["tflops_per_device"].to_list() == [36.5]

"""llm.c: main.log and standard output."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.llmc import LlmC
from surefoot.readers.text import Line


def test_the_real_main_log(corpus):
    path = corpus("modded-nanogpt-2024-10-13_llmc/main.log")
    text = path.read_text()
    run = read_run(path)
    assert run.reading["format"] == "llmc"
    frame = run.signals
    train = re.findall(r"s:(\d+) trl:(\S+) lr:(\S+) norm:(\S+)", text)
    assert len(train) == 19560
    told = frame.select("step", "loss", "learning_rate", "grad_norm").drop_nulls("loss")
    assert told.rows() == [(int(s), float(a), float(b), float(c)) for s, a, b, c in train]
    held_out = [(int(s), float(a)) for s, a in re.findall(r"s:(\d+) tel:(\S+)", text)]
    assert frame.select("step", "validation_loss").drop_nulls().rows() == held_out
    assert set(frame.columns) - {"hellaswag_accuracy"} == {
        "step", "attempt", "loss", "learning_rate", "grad_norm", "validation_loss",
    }  # fmt: skip
    assert len(run.reading["attempts"]) == 1


def test_main_log_with_a_restart(read_text):
    run = read_text(
        "s:0 tel:10.5000\ns:0 eval:0.2500\ns:0 trl:10.4000 lr:0.000001 norm:15.50\n"
        "s:1 trl:nan lr:0.000002 norm:inf\ns:9 trl:9.0000 lr:0.000003 norm:1.50\n"
        "s:5 tel:9.7500\ns:5 trl:9.5000 lr:0.000003 norm:1.25\ns:6 trl:9.4"
    )
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 9), (5, 6)]
    rows = {row["step"]: row for row in run.signals.rows(named=True)}
    assert rows[0]["validation_loss"] == 10.5
    assert rows[0]["hellaswag_accuracy"] == 0.25
    assert math.isnan(rows[1]["loss"])
    assert rows[1]["grad_norm"] == math.inf
    assert rows[5]["loss"] == 9.5
    assert rows[6]["loss"] == 9.4


STDOUT = """\
| num_processes         | 8                                                  |
| vocab_size V          | 50257                                              |
| train_num_batches     | 32000                                              |
val loss 11.129390
step    1/32000 | loss 11.133732 (+nanz)| norm 52.9732 (+nanz)| lr 8.57e-07 | 3056.36 ms | \
42.6% bf16 MFU | 343080 tok/s
step    2/32000 | loss nan (+1.50z)| norm 2.5000 (-0.25z)| lr 1.71e-06 | 2747.19 ms | \
-100.0% bf16 MFU | 381690 tok/s
val loss 9.500000
HellaSwag: 2500/10000 = 0.250000
Writing checkpoint at step 2
"""


def test_standard_output(read_text):
    run = read_text(STDOUT)
    assert run.reading["facts"] == {"world_size": 8, "vocab_size": 50257, "steps": 32000}
    zero, one, two = run.signals.rows(named=True)
    assert zero["step"] == 0
    assert zero["validation_loss"] == 11.12939
    assert one["loss"] == 11.133732
    assert one["grad_norm"] == 52.9732
    assert one["learning_rate"] == 8.57e-07
    assert one["step_time"] == pytest.approx(3.05636)
    assert one["mfu"] == pytest.approx(0.426)
    assert one["tokens_per_second"] == 343080.0
    assert math.isnan(one["loss_z_score"])
    assert math.isnan(two["loss"])
    assert two["loss_z_score"] == 1.5
    assert two["norm_z_score"] == -0.25
    assert two["mfu"] is None  # the peak of the device is not known
    assert two["validation_loss"] == 9.5
    assert two["hellaswag_accuracy"] == 0.25
    assert run.checkpoints[0].step == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "step    3/20 | train loss 10.9 | norm 22.5 | lr 8.57e-07 | (2494.44 ms | 50 tok/s)",
            {"train loss": 10.9, "norm": 22.5, "lr": 8.57e-07, "time (ms)": 2494.44},
        ),
        ("step   4/74: train loss 4.375 (acc 4.25) (80.5 ms, 5000 tok/s)", {"train loss": 4.375}),
    ],
)
def test_older_lines(text, expected):
    points = [item for item in LlmC().feed(Line(1, text)) if hasattr(item, "values")]
    assert len(points) == 1
    assert {key: points[0].values[key] for key in expected} == expected
    assert points[0].values["tok/s"] in (50.0, 5000.0)


@pytest.mark.parametrize(
    "text",
    [
        'fprintf(logfile, "s:%d trl:%.4f lr:%.6f norm:%.2f\\n", step, loss);',
        "step 00010/21400 (0.05%) | loss: 9.1 | lrm: 1.00",
        "the val loss 3.2 was good",
        "iter 5: loss 2.5, time 3ms",
    ],
)
def test_what_is_no_record(text):
    assert list(LlmC().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "step 1/2 | loss 1 " + "'a': " * 10**6, "s:1 trl:1 " + "a: " * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(LlmC().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_numbers_may_be_set_in_columns(read_text):
    """``%9.6f`` of NaN has blanks before it."""
    run = read_text(
        "step   10/74 | loss 9.500000 (+1.50z)| norm 2.2500 (-0.25z)| lr 3.00e-04 | 36.50 ms | "
        "9.5% bf16 MFU | 112241 tok/s\n"
        "step   11/74 | loss      nan (+nanz)| norm    nan (+nanz)| lr 3.00e-04 | 36.50 ms | "
        "9.5% bf16 MFU | 112241 tok/s\n"
        "val loss      nan\n"
    )
    assert run.signals["step"].to_list() == [10, 11]
    assert run.signals["loss"][0] == 9.5
    assert math.isnan(run.signals["loss"][1])
    assert math.isnan(run.signals["grad_norm"][1])
    assert math.isnan(run.signals["validation_loss"][1])
    assert run.signals["learning_rate"].to_list() == [3e-4, 3e-4]

"""GPT-NeoX: Megatron's records behind samples/sec, with DeepSpeed's lines of the same steps."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.neox import NeoX
from surefoot.readers.points import Point
from surefoot.readers.text import Line

LOG = """\
[2023-05-22 21:52:36,066] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, \
lr=[2.5e-09, 2.5e-09], mom=[[0.9, 0.95], [0.9, 0.95]]
 samples/sec: 12.500 | iteration       10/   32000 | elapsed time per iteration (ms): 1250.5 | \
learning rate: 2.500E-09 | approx flops per GPU: 98.7TFLOPS | lm_loss: 1.012500E+01 | \
loss scale: 4096.0 | number of skipped iterations:   1 | number of nan iterations:   0 |
after 10 iterations memory (MB) | allocated: 100.5 | max allocated: 200.0 | reserved: 300.0 | \
max reserved: 400.0
time (ms) | forward: 500.25 | backward: 600.50 | optimizer: 100.00
[2023-05-22 21:52:40,000] [INFO] [loss_scaler.py:188] [deepspeed] OVERFLOW! Rank 0 Skipping step. \
Attempted loss scale: 4096, reducing to 2048
[2023-05-22 21:52:46,066] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=2, \
lr=[5e-09], mom=[[0.9, 0.95]]
 samples/sec: 13.500 | iteration       20/   32000 | elapsed time per iteration (ms): 1150.5 | \
learning rate: 5.000E-09 | approx flops per GPU: 1.5PFLOPS | lm_loss: NAN | \
loss scale: 2048.0 | number of skipped iterations:   1 | number of nan iterations:   1 |
-----------------------------------------------------------------------------------
 validation results at iteration 20 | lm_loss value: 9.500000E+00 | lm_loss_ppl value: 1.34E+04 | 
[2023-05-22 21:53:00,000] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint \
global_step20 is ready now!
[2023-05-22 21:53:06,066] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=2, \
lr=[7.5e-09], mom=[[0.9, 0.95]]
"""


def test_every_field_of_both_kinds_of_lines(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "neox"
    ten, twenty = run.signals.rows(named=True)
    expected = {
        "step": 10,
        "samples_per_second": 12.5,
        "step_time": 1.2505,
        "learning_rate": 2.5e-9,
        "tflops_per_device": 98.7,
        "loss": 10.125,
        "loss_scale": 4096.0,
        "skipped_iterations": 1,
        "nan_iterations": 0,
        "deepspeed_skipped": 1.0,
        "deepspeed_lr": 2.5e-9,
        "memory": 200.0 * 2**20,
        "time_forward": 0.50025,
    }
    assert {key: ten[key] for key in expected} == pytest.approx(expected)
    assert math.isnan(twenty["loss"])
    assert twenty["update_skipped"] == 1
    assert twenty["tflops_per_device"] == pytest.approx(1500.0)
    assert (twenty["validation_loss"], twenty["validation_perplexity"]) == (9.5, 13400.0)
    assert [(e.kind, e.step) for e in run.events] == [("update_skipped", 20), ("checkpoint", 20)]
    assert run.reading["facts"]["steps"] == 32000


def test_a_real_log_by_a_plain_parse(corpus):
    path = corpus("issue-gpt-neox-947/issue947.log")
    run = read_run(path)
    told = re.findall(
        r"samples/sec: ([\d.]+) \| iteration +(\d+)/.*?\(ms\): ([\d.]+) .*?rate: (\S+) .*?"
        r"GPU: ([\d.]+)TFLOPS .*?lm_loss: (\S+) \| loss scale: (\S+)",
        path.read_text(),
    )
    assert run.reading["format"] == "neox"
    assert len(told) == 2
    columns = (
        "samples_per_second", "step", "step_time", "learning_rate", "tflops_per_device", "loss",
        "loss_scale",
    )  # fmt: skip
    for row, numbers in zip(run.signals.rows(named=True), told, strict=True):
        expected = [float(n) for n in numbers]
        expected[2] /= 1000
        assert [row[c] for c in columns] == pytest.approx(expected)


def test_steps_that_go_back_are_a_restart(read_text):
    def record(step):
        return (
            f" samples/sec: 1.000 | iteration {step:8d}/  100 | lm_loss: {10 - step / 10:.6E} |\n"
        )

    text = "".join(map(record, [1, 2, 3, 4, 5, 6, 2, 3, 4]))
    run = read_text(text)
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 6), (2, 4)]


def test_others_are_not_taken_for_it():
    parser = NeoX()
    lines = [
        " iteration        2/     100 | lm loss: 3.0E+00 | loss scale: 1.0 |",
        "[Rank 0] (after 20 iterations) memory (MB) | allocated: 21.0 | max allocated: 24.0",
        "time (ms) | forward: 1.0",
        "log_string = ' samples/sec: {:.3f} |'.format(samples_per_sec)",
        "[Rank 0] step=10, skipped=0, lr=[1e-4], mom=[(0.9, 0.95)]",
    ]
    items = [item for number, text in enumerate(lines) for item in parser.feed(Line(number, text))]
    assert [item for item in items if isinstance(item, Point)] == []


@pytest.mark.parametrize(
    "text", ["x" * 2**20, "1 " * 2**19, "samples/sec: 1 | " * 2**16, "step=1, " * 2**17]
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(NeoX().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

"""torchtitan: its lines of all versions, with colours, many ranks and placeholders."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.torchtitan import TorchTitan
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line

HEAD = "[rank0]:[titan] 2025-01-02 03:04:05,500 - root - INFO - "
LOG = f"""\
{HEAD}Training starts at step 1
{HEAD}\x1b[31mstep:  1  \x1b[32mloss: 12.25000  \x1b[38;2;180;60;0mgrad_norm:  2.5000  \
\x1b[36mmemory: 66.50GiB(70.25%)  \x1b[34mtps: 10,050  \x1b[36mtflops: 1,314.50  \
\x1b[35mmfu: 13.99%\x1b[39m
{HEAD}step:  2  loss: 11.50000  grad_norm:     nan  memory: 67.50GiB(71.25%)  tps: 9,050  \
tflops: 300.25  mfu: N/A
{HEAD}validate step:  2  loss: 11.7500  memory: 12.50GiB(13.25%)  tps: 99,050
{HEAD}Saving the checkpoint (or staging if async is enabled).
{HEAD}Finished saving the checkpoint (or staging if async is enabled) in 1.23 seconds.
{HEAD}Saving a full checkpoint at last step, step 1000.
"""


def test_todays_lines_value_by_value(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "torchtitan"
    one, two = run.signals.rows(named=True)
    expected = {
        "step": 1,
        "loss": 12.25,
        "grad_norm": 2.5,
        "memory": 66.5 * 2**30,
        "memory_share": 0.7025,
        "tokens_per_second_per_device": 10050.0,
        "tflops_per_device": 1314.5,
        "mfu": 0.1399,
        "timestamp": 1735787045.5,
    }
    assert {key: one[key] for key in expected} == pytest.approx(expected)
    assert math.isnan(two["grad_norm"])
    assert two["mfu"] is None
    assert two["loss"] == 11.5
    assert two["validation_loss"] == 11.75
    assert two["validation_memory"] == 12.5 * 2**30
    assert two["tokens_per_second_per_device"] == 9050.0
    assert [c.step for c in run.checkpoints] == [2, 1000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "step:  3  loss:  9.5000  memory:  1.25GiB(1.50%)  wps: 3,456  mfu: 40.50%",
            {
                "loss": 9.5,
                "memory (GiB)": 1.25,
                "memory share (%)": 1.5,
                "wps": 3456.0,
                "mfu (%)": 40.5,
            },
        ),
        (
            "step:  3  loss:  9.5000  memory:  1.25GiB(1.50%)  GPU time: 12.500ms  "
            "CPU wall time: 13.500ms",
            {
                "loss": 9.5,
                "memory (GiB)": 1.25,
                "memory share (%)": 1.5,
                "GPU time (ms)": 12.5,
                "CPU wall time (ms)": 13.5,
            },
        ),
        (
            "Step:  3  Loss:  9.5000  Memory:  1.25GiB(1.50%)  WPS: 3,456  MFU: 40.50%",
            {
                "Loss": 9.5,
                "Memory (GiB)": 1.25,
                "Memory share (%)": 1.5,
                "WPS": 3456.0,
                "MFU (%)": 40.5,
            },
        ),
        (
            "step: 3/1000 = 0.3%  loss:  9.5000  grad norm: 1.5  lr: 0.000300  tflops: --",
            {"loss": 9.5, "grad norm": 1.5, "lr": 3e-4},
        ),
        (
            "step: 3 loss: 9.5 grad_norm: 1.5 memory: 1.25GiB(1.50%) tps: 3,456",
            {
                "loss": 9.5,
                "grad_norm": 1.5,
                "memory (GiB)": 1.25,
                "memory share (%)": 1.5,
                "tps": 3456.0,
            },
        ),
        (
            "step:  3  loss: -1.0000  grad_norm: 2.5  ms/step: 12.5  elapsed_time_per_step: 1.5s",
            {"loss": -1.0, "grad_norm": 2.5, "ms/step": 12.5, "elapsed_time_per_step (s)": 1.5},
        ),
    ],
)
def test_other_versions(text, expected):
    point = next(i for i in TorchTitan().feed(Line(1, text)) if isinstance(i, Point))
    assert point == Point(3, expected, 1)


def test_what_is_told_of_checkpoints():
    parser = TorchTitan()
    texts = [
        "Loading the checkpoint at step 500.",
        "Loading the checkpoint from outputs/checkpoint/step-700.",
        "Training starts at step 701, with local batch size 1, total steps 1000 (warmup 200)",
        "Saving a model only checkpoint in torch.bfloat16 at last step, step 1000.",
    ]
    told = [item for text in texts for item in parser.feed(Line(1, text))]
    assert told == [
        Note("resumed", 500, 1),
        Note("resumed", 700, 1),
        Note("facts", None, 1, {"steps": 1000}),
        Note("resumed", 700, 1),
        Note("checkpoint", 1000, 1),
    ]


def test_a_restart(read_text):
    def told(step):
        return (
            f"[titan] 2025-01-02 03:04:05,000 - root - INFO - step: {step:2}  loss: {9 - step}.5\n"
        )

    run = read_text("".join(map(told, [1, 2, 3, 4, 5, 6, 3, 4])))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 6), (3, 4)]


def test_a_real_log_of_seven_ranks(corpus):
    path = corpus("issue-torchtitan-pr2389/pr2389.log")
    told = {
        int(step): numbers
        for step, *numbers in reversed(
            re.findall(
                r"step: +(\d+)  loss: +(\S+)  grad_norm: +(\S+)  memory: +([\d.]+)GiB.*?"
                r"tps: +(\S+)  tflops: +(\S+)  mfu: +([\d.]+)%",
                path.read_text(),
            )
        )
    }
    run = read_run(path)
    assert run.reading["format"] == "torchtitan"
    assert run.signals["step"].to_list() == sorted(told)
    assert len(run.reading["attempts"]) == 1
    for row in run.signals.rows(named=True):
        loss, norm, memory, tps, tflops, mfu = told[row["step"]]
        assert row["loss"] == float(loss)
        assert row["grad_norm"] == float(norm)
        assert row["memory"] == pytest.approx(float(memory) * 2**30)
        assert row["tokens_per_second_per_device"] == float(tps.replace(",", ""))
        assert row["tflops_per_device"] == float(tflops)
        assert row["mfu"] == pytest.approx(float(mfu) / 100)


def test_a_loss_that_no_rank_computes_stays_a_placeholder(corpus):
    path = corpus("../cases/18-torchtitan-pp-loss-minus1/train.log")
    run = read_run(path)
    told = re.findall(r"step: +(\d+)  loss: +(\S+)  grad_norm: +(\S+)", path.read_text())
    assert run.signals.select("step", "loss", "grad_norm").rows() == [
        (int(step), -1.0, float(norm)) for step, _, norm in told
    ]


@pytest.mark.parametrize(
    "text",
    [
        'f"{color.red}step: {step:2}  "',
        "step: 5 loss: 3.5 lr: 1e-4",
        "step:5/100 train_loss:3.5 train_time:100ms",
        "[step=5/100,epoch=0]",
        "at step: 5  we saw nothing",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert list(TorchTitan().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**20,
        "1 " * 2**19,
        "step:  1  loss: " + "a: " * 2**18,
        "step:  1  loss: " + "a b c d " * 2**17,
        "step: 1 " * 2**17,
        "step:  1  loss: " + "1" * 2**20 + "x",
        "Saving a checkpoint " * 2**15,
        "step:  1  " + "memory: 1GiB(" * 2**15,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(TorchTitan().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

"""nanotron: numbers with suffixes, and those of old versions in full."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.nanotron import Nanotron
from surefoot.readers.points import Point
from surefoot.readers.text import Line

LOG = """\
10/17/2025 16:31:50 [INFO|DP=0|PP=0|TP=0]: [Start training] datetime: 2025-10-17 | mbs: 2 | \
grad_accum: 4 | global_batch_size: 64 | sequence_length: 2048 | train_steps: 500 | \
start_iteration_step: 0 | consumed_train_samples: 0
10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 500 | consumed_tokens: 131K | \
elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | \
global_batch_size: 64 | lm_loss: 11.5 | lr: 1e-05 | model_tflops_per_gpu: 38.3 | \
hardware_tflops_per_gpu: 40.5 | grad_norm: 1.25 | cuda_memory_allocated: 5.98G | \
cuda_max_memory_reserved: 11.6B | hd_free_memory_tb: 312G
10/17/2025 16:32:07 [INFO|DP=0|PP=0|TP=0]: iteration: 2 / 500 | consumed_tokens: 1.05M | \
elapsed_time_per_iteration_ms: 950 | lm_loss: nan | lr: 2e-05 | grad_norm: inf | eta: 1 day, 2:03:04
10/17/2025 16:32:08 [WARNING|DP=0|PP=0|TP=0]: Saving checkpoint at checkpoints/2
"""


def test_every_field(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "nanotron"
    one, two = run.signals.rows(named=True)
    expected = {
        "step": 1,
        "consumed_tokens": 131000,
        "step_time": 11.5,
        "tokens_per_second": 22800.0,
        "tokens_per_second_per_device": 11400.0,
        "batch_size": 64,
        "loss": 11.5,
        "learning_rate": 1e-5,
        "tflops_per_device": 38.3,
        "hardware_tflops_per_gpu": 40.5,
        "grad_norm": 1.25,
        "memory_allocated": 5.98e9,
        "memory_reserved": 11.6e9,
        "timestamp": 1760718716.0,
    }
    assert {key: one[key] for key in expected} == pytest.approx(expected)
    assert math.isnan(two["loss"])
    assert two["grad_norm"] == math.inf
    assert two["step_time"] == pytest.approx(0.95)
    assert two["consumed_tokens"] == 1050000
    assert "eta" not in run.signals.columns
    assert [(c.step, c.path) for c in run.checkpoints] == [(2, "checkpoints/2")]
    assert run.reading["facts"]["steps"] == 500


def test_old_versions_print_numbers_in_full_and_validations(read_text):
    run = read_text(
        "[0434:0]: iteration: 7 / 100 | consumed_samples:          448 | "
        "elapsed_time_per_iteration_ms: 1250.5 | tokens_per_sec: 1.500000E+05 | lm_loss: "
        "3.250000E+00 | lr: 3.000E-04 | model_tflops_per_gpu: 40.25 | val_loss: 3.5 |\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["consumed_samples"], row["step_time"]) == (7, 448, 1.2505)
    assert (row["loss"], row["learning_rate"], row["validation_loss"]) == (3.25, 3e-4, 3.5)


def test_a_restart_is_told(read_text):
    def told(step):
        return f"x [INFO]: iteration: {step} / 9 | lm_loss: {9 - step} | grad_norm: 1.5\n"

    start = "x [INFO]: [Start training] datetime: a | train_steps: 9 | start_iteration_step: 2\n"
    run = read_text("".join(map(told, [1, 2, 3, 4])) + start + "".join(map(told, [3, 4, 5])))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 4), (3, 5)]
    assert [(e.kind, e.step) for e in run.events] == [("resumed", 2)]


def test_a_real_log_by_a_plain_parse(corpus):
    path = corpus("issue-nanotron-390/issue390.log")
    told = re.findall(
        r"iteration: (\d+) .*?consumed_tokens: ([\d.]+)G .*?_ms: ([\d.]+)K .*?sec: ([\d.]+)K .*?"
        r"per_gpu: ([\d.]+)K .*?lm_loss: (\S+) \| lr: (\S+) .*?grad_norm: (\S+)",
        path.read_text(),
    )
    run = read_run(path)
    assert run.reading["format"] == "nanotron"
    assert len(told) == len(run.signals) == 4
    columns = (
        "step", "consumed_tokens", "step_time", "tokens_per_second",
        "tokens_per_second_per_device", "loss", "learning_rate", "grad_norm",
    )  # fmt: skip
    scales = (1, 1e9, 1, 1e3, 1e3, 1, 1, 1)
    for row, numbers in zip(run.signals.rows(named=True), told, strict=True):
        expected = [float(n) * scale for n, scale in zip(numbers, scales, strict=True)]
        assert [row[c] for c in columns] == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        " iteration        2/     100 | lm loss: 3.0E+00 |",
        "log_str = f'iteration: {step} / {total} | lm_loss: {loss}'",
        "Validation: iteration 1/20",
        "iteration: 5 loss: 3.2",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert [i for i in Nanotron().feed(Line(1, text)) if isinstance(i, Point)] == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**20,
        "1 " * 2**19,
        "iteration: 1 / 2 |" + "a: " * 2**18,
        "iteration: 1 / 2 |" + " " * 2**20,
        "Saving checkpoint at " + "1/" * 2**19,
        "iteration: 1 / " * 2**16,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(Nanotron().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

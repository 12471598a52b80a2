"""Megatron's lines of all its ages, against a plain parse of real logs and against known values."""

import math
import re
import time

import polars as pl
import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs._pipes import fields
from surefoot.readers.logs.megatron import FORMAT, Megatron
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line

MAIN = {
    "lm loss": "loss",
    "lm-loss": "loss",
    "grad norm": "grad_norm",
    "learning rate": "learning_rate",
    "loss scale": "loss_scale",
    "global batch size": "batch_size",
    "consumed samples": "consumed_samples",
    "consumed tokens": "consumed_tokens",
    "number of skipped iterations": "skipped_iterations",
    "number of nan iterations": "nan_iterations",
    "num zeros": "num_zeros",
    "TFLOPs": "tflops_per_device",
    "samples per second": "samples_per_second",
}


def plain(path):
    """Step -> {key: number}, by splitting; `key number` too. Later lines of a step do not win."""
    rows = {}
    for line in path.read_text(errors="replace").splitlines():
        found = re.search(r"iteration +(\d+)/ *\d+ \|(.*)", line)
        if not found:
            continue
        values = {}
        for field in found[2].split("|"):
            pair = re.fullmatch(r"\s*([^:]*?):?\s+([-+\d.]+(?:E[-+]\d+)?)\s*", field)
            if pair:
                values[pair[1]] = float(pair[2])
        rows.setdefault(int(found[1]), values)
    return rows


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("bigscience-chronicles/tr1-13B-base_chronicles_iter29020-29090.log", 8),
        ("bigscience-chronicles/tr11-176B-ml_chronicles_iter31214-31251.log", 11),
        ("bigscience-chronicles/tr8-104B-wide_chronicles_iter8738-8743.log", 6),
        ("bigscience-gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out", 20),
        ("bigscience-gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655.out", 6),
        ("bigscience-gpt2-meg/meg_gpt2_perf_n16.out", 3),
        ("bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off.out", 62),
        ("bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on.out", 49),
        ("issue-epfllm-megatron-33/issue33.log", 3),
        ("issue-epfllm-megatron-33/pr34.log", 2),
        ("issue-megatron-5-v0/issue5.log", 4),
    ],
)
def test_real_logs_as_by_a_plain_parse(corpus, name, count):
    path = corpus(name)
    run, rows = read_run(path), plain(path)
    assert run.reading["format"] == "megatron"
    assert run.signals["step"].to_list() == sorted(rows)
    assert len(rows) == count
    for key, signal in MAIN.items():
        expected = [rows[step].get(key) for step in sorted(rows)]
        if key in ("lm loss", "lm-loss") and not any(v is not None for v in expected):
            continue
        if any(v is not None for v in expected):
            assert run.signals[signal].to_list() == pytest.approx(expected), key
    times = [rows[s].get("elapsed time per iteration (ms)") for s in sorted(rows)]
    if times[0] is not None:
        assert run.signals["step_time"].to_list() == pytest.approx([t / 1e3 for t in times])


def test_real_docs_with_two_runs_in_one_file(corpus):
    run = read_run(corpus("mindspeed-fsdp2-docs/fsdp2_quick_start.md"))
    assert [(a["first"], a["last"], a["rows"]) for a in run.reading["attempts"]] == [
        (1, 3, 3),
        (1, 3, 3),
    ]
    assert run.signals["loss"].to_list() == [3.316887, 2.443476, 2.669216]
    assert run.superseded["loss"].to_list() == [1.304194, 1.232217, 1.134654]
    assert run.signals["memory"].to_list() == pytest.approx([19.07 * 2**30] * 3)


def test_a_real_line_with_durations(corpus):
    run = read_run(corpus("issue-ms-swift-6836/issue6836.log"))
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["load_balancing_loss"]) == (1530, 0.3515074, 2.801638)
    assert row["memory"] == pytest.approx(72.89 * 2**30)
    assert "elapsed_time" not in row
    assert "remaining_time" not in row


def test_a_real_log_with_validation_lines(corpus):
    run = read_run(corpus("bigscience-gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out"))
    told = run.signals.select("step", "validation_loss", "validation_perplexity").drop_nulls()
    assert told.rows() == [(100, 8.017406, 3033.3), (200, 7.487306, 1785.236)]
    assert run.reading["facts"]["world_size"] == 16


NOW = """\
using world size: 64, data-parallel size: 8, tensor-model-parallel size: 8
 > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)
(min, max) time across ranks (ms):
    load-checkpoint ................................: (12.50, 13.75)
 [2025-03-04 05:06:07.250000] iteration        9/     500 | consumed samples:         2304 | \
skipped samples:          128 | elapsed time per iteration (ms): 1250.5 | throughput per GPU \
(TFLOP/s/GPU): 412.7 | energy per GPU (J/iter/GPU): 900.5 | learning rate: 1.500000E-04 | global \
batch size:   256 | lm loss: 1.012500E+01 | mtp_1 loss: 1.025000E+01 | load_balancing_loss: \
1.250000E+00 | z_loss: 3.000000E-03 | loss scale: 1.0 | grad norm: 4.125 | num zeros: 1,234.0 | \
params norm: 512.500 | number of skipped iterations:   2 | number of nan iterations:   1 |
[Rank 0] (after 9 iterations) memory (MB) | allocated: 1024.5 | max allocated: 2048.0 | \
reserved: 3000.0 | max reserved: 4096.0[Rank 1] (after 9 iterations) memory (MB) | allocated: 1.0 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.25, 1100.50)
    optimizer ......................................: (20.00, 30.00)
 [2025-03-04 05:06:09.000000] iteration       10/     500 | consumed samples:         2560 | \
elapsed time per iteration (ms): 1260.0 | learning rate: 1.600000E-04 | global batch size:   256 | \
lm loss: NAN | loss scale: 1.0 | grad norm: inf | number of skipped iterations:   0 |
saving checkpoint at iteration      10 to /ckpt in torch_dist format
  successfully saved checkpoint from iteration      10 to /ckpt [ t 1/8, p 1/1 ]
----------------------------------------------------------------------------------
 validation loss at iteration 10 on validation set | lm loss value: 9.875000E+00 | \
lm loss PPL: 1.944000E+04 |
 validation loss at iteration 10 on test set | lm loss value: 9.750000E+00 | lm loss PPL: 1.7E+04 |
[exiting program at iteration 10] datetime: 2025-03-04 05:06:10
"""


def test_todays_lines_value_by_value(read_text):
    run = read_text(NOW)
    nine, ten = run.signals.rows(named=True)
    assert nine["step"] == 9
    assert ten["step"] == 10
    expected = {
        "consumed_samples": 2304,
        "skipped_samples": 128.0,
        "step_time": 1.2505,
        "tflops_per_device": 412.7,
        "energy_per_gpu": 900.5,
        "learning_rate": 1.5e-4,
        "batch_size": 256,
        "loss": 10.125,
        "mtp_1_loss": 10.25,
        "load_balancing_loss": 1.25,
        "router_z_loss": 3e-3,
        "loss_scale": 1.0,
        "grad_norm": 4.125,
        "num_zeros": 1234,
        "param_norm": 512.5,
        "skipped_iterations": 2,
        "nan_iterations": 1,
        "memory_allocated": 1024.5 * 2**20,
        "memory": 2048 * 2**20,
        "memory_reserved": 4096 * 2**20,
        "time_forward_backward": 1.1005,
        "time_optimizer": 0.03,
        "timestamp": 1741064767.25,
    }
    assert {key: nine[key] for key in expected} == pytest.approx(expected)
    assert math.isnan(ten["loss"])
    assert ten["grad_norm"] == math.inf
    assert ten["num_zeros"] is None
    assert ten["tflops_per_device"] is None
    assert (ten["validation_loss"], ten["validation_perplexity"]) == (9.875, 19440.0)
    assert ten["test_loss"] == 9.75
    facts = run.reading["facts"]
    assert (facts["world_size"], facts["vocab_size"], facts["steps"]) == (64, 50304, 500)
    assert [(c.step, c.path) for c in run.checkpoints] == [(10, "/ckpt")]
    assert "time_load_checkpoint" not in run.signals.columns  # before the first step


def test_the_form_of_2019(read_text):
    run = read_text(
        " iteration      100/   20000 | elapsed time per iteration (ms): 250.5 | learning rate "
        "1.010E-06 | lm loss 9.500000E+00 | nsp loss 5.5E-01 | loss scale 65536.0 |\n"
        "after 100 iterations memory (MB) | allocated: 10.0 | max allocated: 20.0 | cached: 30.0 | "
        "max cached: 40.0\n"
        "time (ms) | forward: 100.5 | backward: 120.25 | data loader: 4.5\n"
        " validation loss at iteration 100 | LM loss: 8.5E+00 | LM PPL: 4914.8\n"
        "global rank 0 is saving checkpoint at iteration     100 to ckpt/iter_0000100/mp_rank_00\n"
        "  successfully saved ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt\n"
    )
    row = run.signals.row(0, named=True)
    expected = {
        "step": 100,
        "step_time": 0.2505,
        "learning_rate": 1.01e-6,
        "loss": 9.5,
        "nsp_loss": 0.55,
        "loss_scale": 65536.0,
        "memory": 20.0 * 2**20,
        "memory_reserved": 40.0 * 2**20,
        "time_forward": 0.1005,
        "time_data_loader": 0.0045,
        "validation_loss": 8.5,
        "validation_perplexity": 4914.8,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert [c.step for c in run.checkpoints] == [100]


def test_megatron_deepspeed_with_equals_signs_behind_a_logger(read_text):
    run = read_text(
        "[2024-06-21 10:50:42][INFO][training:1609] -  iteration=       3/   31789 | "
        "consumed_samples=         768 | elapsed_time_per_iteration_ms=1500.5 | "
        "learning_rate=1.25e-08 | global_batch_size=  768 | lm loss=11.125 | grad_norm=6.25 | "
        "samples_per_second=7.5 | tokens_per_gpu_per_second_tgs=1203.5 | [LM]-TFLOPs=49.5 |\n"
    )
    row = run.signals.row(0, named=True)
    expected = {
        "step": 3,
        "consumed_samples": 768,
        "step_time": 1.5005,
        "learning_rate": 1.25e-8,
        "batch_size": 768,
        "loss": 11.125,
        "grad_norm": 6.25,
        "samples_per_second": 7.5,
        "tokens_per_second_per_device": 1203.5,
        "lm_tflops": 49.5,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)


def line(step, loss):
    return f" iteration {step:8d}/     100 | lm loss: {loss:.6E} | grad norm: 1.000 |\n"


def test_a_restart_goes_on_from_the_checkpoint(read_text):
    first = "".join(line(step, 5.0 - step / 10) for step in range(1, 8))
    again = "".join(line(step, 4.0 - step / 10) for step in range(5, 9))
    run = read_text(
        f"{first}  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 4\n"
        f"{again}"
    )
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 7), (5, 8)]
    assert run.signals["loss"].to_list() == pytest.approx([4.9, 4.8, 4.7, 4.6, 3.5, 3.4, 3.3, 3.2])
    assert run.superseded["loss"].to_list() == pytest.approx([4.5, 4.4, 4.3])
    assert [(e.kind, e.step) for e in run.events] == [("resumed", 4)]


def test_a_line_that_is_cut_keeps_what_it_has(read_text):
    run = read_text(line(1, 3.0) + " iteration        2/     100 | lm loss: 2.5E+00 | loss sca")
    assert run.signals.select("step", "loss", "grad_norm").rows() == [(1, 3.0, 1.0), (2, 2.5, None)]


def test_test_data_at_the_end_is_no_validation():
    where = "the end of training for test data"
    told = list(
        Megatron().feed(Line(1, f" validation loss at {where} | lm loss value: 2.0E+00 | "))
    )
    assert told == [Point(None, {"test loss": 2.0}, 1, evaluation=True)]


@pytest.mark.parametrize(
    "text",
    [
        "Training epoch 0, iteration 5/19 | lr: 1.499e-07 | reduced_train_loss: 11.03",
        "iteration: 12 / 100 | lm_loss: 2.38 | lr: 1e-05",
        "log_string = ' iteration {:8d}/{:8d} |'.format(iteration, args.train_iters)",
        "at iteration 5 the loss was 3.2, see lm loss: 3.2",
        "Rank 3, node n1, device 0, iteration 12: Unexpected result nan (message='found NaN')",
        "  train_iters ..................................... 500",
        "step: 5 | loss: 3.2 | lr: 1e-4",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert [i for i in Megatron().feed(Line(1, text)) if isinstance(i, Point)] == []


def test_numbers_of_fields():
    text = (
        "a: 1 | b=2.5 | c 3 | d: 5.7TFLOPS | e: 1.5PFLOPS | f: 85.8G | g: 1.25/1.5 | h: 12% | "
        "i: 1.5GB/2GB | j: 1,234.5 | k: 1d 2h | l: 2:03:04 | m: [1] | n: | o: nan | p: -inf | "
        "q: 3 apples | r: 12.3s"
    )
    told = dict(fields(text))
    assert math.isnan(told.pop("o"))
    assert told == {
        "a": 1.0, "b": 2.5, "c": 3.0, "d (TFLOPS)": 5.7, "e (TFLOPS)": 1500.0, "f": 85.8e9,
        "g": 1.25, "h (%)": 12.0, "i (GB)": 1.5, "j": 1234.5, "p": -math.inf, "r (s)": 12.3,
    }  # fmt: skip


def test_a_file_without_records_is_not_read(read_text):
    with pytest.raises(LogError):
        read_text("using world size: 16\ntime (ms) | load-checkpoint: 0.47\n")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**20,
        "1 " * 2**19,
        "a: " * 2**18,
        "| " * 2**19,
        ": | " * 2**18,
        " " * 2**20 + "|",
        " iteration        2/     100 |" + " " * 2**20,
        " iteration        2/     100 |" + "a: 1 " * 2**17,
        " validation loss at " + "iteration " * 2**16 + "|",
        "[Rank 1] " * 2**16 + "|",
        "    a ..: (" + "1" * 2**20 + "x",
        " iteration " + "1" * 2**20 + "|",
        " iteration        2/     100 | a: " + "1" * 2**20 + "x|",
        "after 1 iterations memory (MB) | a: 1" * 2**14,
        "    " + "a" * 2**10 + "..: (1, 2)" * 2**14,
        "successfully saved " + "iter_0000001" * 2**15,
        "successfully loaded checkpoint " * 2**14,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    for _ in range(3):
        list(Megatron().feed(Line(1, text)))
    assert time.process_time() - begin < 3.0


def test_every_line_that_is_read_holds_a_needle():
    for text in NOW.splitlines():
        if list(Megatron().feed(Line(1, text))):
            assert any(needle in text for needle in FORMAT.needles), text


def test_long_logs_read_as_columns_say_the_same(read_text, tmp_path):
    rows = [
        line(step, 5.0 - step / 1000).replace(" |\n", f" | num zeros: {step * 3:.1f} |\n")
        for step in range(1, 1501)
    ]
    run = read_text("".join(rows))
    items = [
        item for number, text in enumerate(rows) for item in Megatron().feed(Line(number, text))
    ]
    points = [item for item in items if isinstance(item, Point)]
    expected = pl.DataFrame(
        {
            "step": [point.step for point in points],
            "loss": [point.values["lm loss"] for point in points],
            "num_zeros": [int(point.values["num zeros"]) for point in points],
        }
    )
    assert run.signals.select("step", "loss", "num_zeros").equals(expected)
    assert {n.data["steps"] for n in items if isinstance(n, Note)} == {100}


def test_memory_that_is_written_right_behind_a_record(read_text):
    run = read_text(
        "[2026-05-06 00:00:01] iteration        1/       2 | elapsed time per iteration (ms): 99.5 "
        "| lm loss: 1.250000E+00 | GPU utilization: 50.5MODEL_TFLOP/s/GPU[Rank 0] (after 1 "
        "iterations) memory (GB) | mem-allocated-gigabytes: 10.0 | mem-max-allocated-gigabytes: "
        "20.0 |\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["tflops_per_device"]) == (1, 1.25, 50.5)
    assert (row["memory_allocated"], row["memory"]) == (10e9, 20e9)


@pytest.mark.parametrize("end", ["2", "2.5041", "2.504100E", "2.504100E+", "2.504100E+0"])
def test_a_number_in_which_the_file_ends_is_not_read(read_text, end):
    record = " iteration {0:8d}/  250000 | learning rate: 9.500E-06 | lm loss: {1}"
    run = read_text(record.format(1, "2.500000E+00 |\n") + record.format(2, end))
    assert run.signals["step"].to_list() == [1, 2]
    assert run.signals["loss"].to_list() == [2.5, None]
    assert run.signals["learning_rate"].to_list() == [9.5e-06, 9.5e-06]


def test_a_record_without_its_last_sign_is_whole(read_text):
    text = " iteration        1/  250000 | learning rate: 9.500E-06 | lm loss: 2.500000E+00"
    assert read_text(text).signals["loss"].to_list() == [2.5]

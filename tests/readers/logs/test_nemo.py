"""NeMo's records and progress bars, and Megatron-Bridge's line before each record."""

import math
import re
import time

import polars as pl
import pytest

from surefoot.readers import read_run
from surefoot.readers.logs import nemo
from surefoot.readers.logs._drawn import drawing
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line


def record(step, loss, extra="", epoch=0, iteration=None):
    at = step if iteration is None else iteration
    return (
        f"[default0]:Training epoch {epoch}, iteration {at}/19 | lr: 1.5e-07 | "
        f"global_batch_size: 512 | global_step: {step} | reduced_train_loss: {loss} | "
        f"train_step_timing in s: 7.25 | consumed_samples: {(step + 1) * 512}{extra}\n"
    )


def test_every_field_of_a_record(read_text):
    run = read_text(record(4, 11.5, " | grad_norm: 2.5 | val_loss: 10.5", epoch=1, iteration=3))
    assert run.reading["format"] == "nemo"
    row = run.signals.row(0, named=True)
    expected = {
        "step": 4,
        "epoch": 1.0,
        "learning_rate": 1.5e-7,
        "batch_size": 512,
        "loss": 11.5,
        "step_time": 7.25,
        "consumed_samples": 2560,
        "grad_norm": 2.5,
        "validation_loss": 10.5,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert "global_step" not in row


def test_a_validation_loss_is_told_where_it_is_new(read_text):
    text = record(0, 11.0) + record(1, 10.5, " | val_loss: 10.25") + record(2, "nan")
    text += record(3, 9.5, " | val_loss: 10.25") + record(4, 9.25, " | val_loss: 9.75")
    run = read_text(text)
    assert run.signals["validation_loss"].to_list() == [None, 10.25, None, None, 9.75]
    assert math.isnan(run.signals["loss"][2])


def test_what_is_told_of_checkpoints(read_text):
    path = "/ckpt/m--val_loss=0.00-step=1-consumed_samples=1024.0-last"
    text = record(0, 11.0) + record(1, 10.5)
    text += "[NeMo I 2025-03-07 22:35:22 mc:497] Scheduled async checkpoint save for /ckpt/step=1\n"
    text += f"[NeMo I 2025-03-07 22:35:29 mc:522] Async checkpoint save for step 2 ({path}.ckpt) "
    text += "finalized successfully.\n" + record(2, 10.0)
    text += f"[default0]:Restored all states from the checkpoint at {path}/weights\n"
    text += record(2, 9.75)
    run = read_text(text)
    assert [(c.step, c.path) for c in run.checkpoints] == [(1, f"{path}.ckpt")]
    assert [(e.kind, e.step) for e in run.events] == [("checkpoint", 1), ("resumed", 1)]
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 2), (2, 2)]
    assert run.signals["loss"].to_list() == [11.0, 10.5, 9.75]


def test_restarts_of_a_real_log(corpus):
    path = corpus("nemo-resiliency-nb/all_stdout_cells.log")
    told = [
        (int(step or iteration), float(loss), float(seconds))
        for iteration, step, loss, seconds in re.findall(
            r"iteration (\d+)/\d+ \|(?:.*?global_step: (\d+))?.*?reduced_train_loss: (\S+) .*?"
            r"in s: (\S+)",
            path.read_text(errors="replace"),
        )
    ]
    run = read_run(path)
    assert run.reading["format"] == "nemo"
    rows = [run.signals] if run.superseded is None else [run.signals, run.superseded]
    every = pl.concat(rows, how="diagonal_relaxed")
    read = [row for row in every.sort("attempt", "step").select("step", "loss", "step_time").rows()]
    assert len(read) == len(told) == 85
    assert read == told
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [
        (0, 19), (0, 15), (10, 19), (0, 15), (0, 19), (0, 2),
    ]  # fmt: skip


def drawn(done, step, loss, extra=""):
    return (
        f"Epoch 0: :  {done}%|#         | {done}/100 [00:10<01:40, v_num=x-1, "
        f"reduced_train_loss={loss}, global_step={step}, consumed_samples=512.0, "
        f"train_step_timing in s=2.50{extra}]"
    )


def test_bars_drawn_over_one_another(read_text):
    text = "\r".join(
        [
            "Epoch 0: :   0%|          | 0/100 [00:00<?]",
            drawn(1, "0.000", "11.50"),
            drawn(1, "0.000", "11.50"),
            drawn(2, "1.000", "11.25"),
            drawn(2, "1.000", "11.25", ", val_loss=11.00"),
            drawn(3, "2.000", "11.25", ", val_loss=11.00"),
        ]
    )
    run = read_text(text + "\n")
    assert run.reading["format"] == "nemo"
    assert len(run.reading["attempts"]) == 1
    assert run.signals.select("step", "loss", "step_time", "validation_loss").rows() == [
        (0, 11.5, 2.5, None),
        (1, 11.25, 2.5, 11.0),
        (2, 11.25, 2.5, None),
    ]


def test_steps_that_the_bar_has_cut_to_three_digits(read_text):
    def far(done, step, loss):
        return (
            f"Epoch 0:   1%|#         | {done}/90000 [59:12<15:03:24, 18.79s/it, loss=7.5, "
            f"reduced_train_loss={loss}, global_step={step}, consumed_samples=2.4e+5]"
        )

    bars = [far(999, "998.0", "8.5"), far(1235, "1.23e+3", "8.25"), far(1236, "1.24e+3", "8.125")]
    run = read_text("\n".join(bars))
    assert run.signals["step"].to_list() == [998, 1234, 1235]
    assert run.signals["loss"].to_list() == [8.5, 8.25, 8.125]
    assert run.signals["running_loss"].to_list() == [7.5] * 3


BRIDGE = """\
Step Time : 9.25s GPU utilization: 663.5MODEL_TFLOP/s/GPU
 [2025-12-22 15:18:33] iteration       49/      50 | consumed samples:        25600 | elapsed time \
per iteration (ms): 9251.5 | learning rate: 3.000000E-05 | global batch size:   512 | lm loss: \
8.125000E+00 | grad norm: 0.500 | number of skipped iterations:   0 |
[Rank 0] (after 49 iterations) memory (GB) | mem-max-reserved-gigabytes: 12.5
 validation loss at iteration 49 | lm loss value: 8.500000E+00 | lm loss PPL: 4.9E+03 |
 [2025-12-22 15:18:43] iteration       50/      50 | lm loss: 8.000000E+00 | grad norm: 0.250 |
"""


def test_megatron_bridge(read_text):
    run = read_text(BRIDGE)
    assert run.reading["format"] == "megatron-bridge"
    first, second = run.signals.rows(named=True)
    expected = {
        "step": 49,
        "step_time": 9.2515,
        "tflops_per_device": 663.5,
        "loss": 8.125,
        "grad_norm": 0.5,
        "memory_reserved": 12.5e9,
        "validation_loss": 8.5,
    }
    assert {key: first[key] for key in expected} == pytest.approx(expected)
    assert second["tflops_per_device"] is None
    assert second["loss"] == 8.0


def test_megatrons_own_log_is_not_taken_for_it(read_text):
    run = read_text(BRIDGE.partition("\n")[2])
    assert run.reading["format"] == "megatron"
    assert (run.reading["second"] or {}).get("format") != "megatron-bridge"


@pytest.mark.parametrize(
    "text",
    [
        " iteration        2/     100 | lm loss: 3.0E+00 |",
        "Epoch 0:  10%|#   | 100/1000 [01:23<12:34,  1.20it/s, loss=2.34]",
        "Validation: iteration 1/20",
        "checkpoints/m--reduced_train_loss=0.0801-epoch=3-step=2175-last",
        'prefix = f"Training epoch {trainer.current_epoch}, iteration {n}/{self.total}"',
    ],
)
def test_what_is_of_others_is_not_read(text):
    for parser in (nemo.NeMo(), nemo.Bridge()):
        assert [i for i in parser.feed(Line(1, text)) if isinstance(i, Point)] == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**20,
        "reduced_train_loss=" + "1 " * 2**19,
        "reduced_train_loss=%|" + "a: " * 2**18,
        "%| 1/2 [00:00<00:00, reduced_train_loss=1, " + "a=1, " * 2**17,
        "%|" * 2**19 + "reduced_train_loss=",
        "%| 1/2 [00:00<00:00, reduced_train_loss=" + "1" * 2**20 + "x",
        "Training epoch 1, iteration 2/3 |" + " " * 2**20,
        "Training epoch 1, " * 2**15,
        "Restored all states from the checkpoint at " + "step=" * 2**17,
        "Async checkpoint save for step 1 (" + "x" * 2**20,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    for parser in (nemo.NeMo(), nemo.Bridge()):
        list(parser.feed(Line(1, text)))
    assert time.process_time() - begin < 1.5


def test_bars_of_all_shapes():
    plain = drawing("Epoch 0:  10%|#   | 100/1000 [01:23<12:34,  1.20it/s, loss=2.34, lr=1e-5]")
    assert plain is not None
    assert (plain.title, plain.done, plain.total) == ("Epoch 0", 100, 1000)
    assert plain.values == {"loss": 2.34, "lr": 1e-5}
    endless = drawing("Epoch 1: : 1it [00:04,  4.36s/it, v_num=d3c7, reduced_train_loss=0.674]")
    assert endless is not None
    assert (endless.done, endless.total) == (1, None)
    assert endless.values == {"reduced_train_loss": 0.674}
    assert drawing("100%|done") is None
    assert drawing("it [") is None


def test_notes_need_no_record():
    told = list(
        nemo.NeMo().feed(Line(3, "Successfully saved checkpoint from iteration 24 to /c/a"))
    )
    assert told == [Note("checkpoint", 24, 3, {"path": "/c/a"})]


def test_the_peak_of_memory(read_text):
    run = read_text(
        "Training epoch 0, iteration 49/49 | lr: 7.5e-06 | global_batch_size: 128 | global_step: 49"
        " | peak_memory_usage: 70833405952 | memory_allocated: 44271689728 | "
        "reduced_train_loss: 11.75 | train_step_timing in s: 12.5\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["memory"], row["memory_allocated"]) == (70833405952.0, 44271689728.0)
    assert (row["step"], row["loss"], row["step_time"]) == (49, 11.75, 12.5)

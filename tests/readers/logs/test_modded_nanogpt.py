"""modded-nanogpt: its source on top, several runs in a file, validation alone."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.modded_nanogpt import ModdedNanogpt
from surefoot.readers.text import Line


def plain(path):
    rows = []
    for line in path.read_text().splitlines():
        found = re.match(r"step:(\d+)/\d+ (train|val)_loss:(\S+) train_time:(\S+?)(ms|s) ", line)
        if found:
            seconds = float(found[4]) * (1e-3 if found[5] == "ms" else 1.0)
            rows.append((int(found[1]), found[2], float(found[3]), seconds))
    return rows


def test_the_run_with_every_loss(corpus):
    path = corpus("modded-nanogpt-2024-10-10_Muon/eb5659d0-fb6a-49e5-a311-f1f89412f726.txt")
    run = read_run(path)
    rows = plain(path)
    assert run.reading["format"] == "modded-nanogpt"
    frame = run.signals
    losses = {step: loss for step, kind, loss, _ in rows if kind == "train"}
    assert len(losses) == 6200
    assert dict(frame.select("step", "loss").drop_nulls().iter_rows()) == losses
    held_out = {step: loss for step, kind, loss, _ in rows if kind == "val"}
    assert dict(frame.select("step", "validation_loss").drop_nulls().iter_rows()) == held_out
    assert set(frame.columns) == {
        "step", "attempt", "loss", "validation_loss", "train_time", "step_avg",
    }  # fmt: skip
    times = {step: seconds for step, kind, _, seconds in rows if kind == "train"}
    told = dict(frame.filter(frame["step"] > 0).select("step", "train_time").iter_rows())
    assert told == pytest.approx(times)
    assert run.reading["facts"]["steps"] == 6200
    assert len(run.reading["attempts"]) == 1


def test_four_runs_in_one_file(corpus):
    path = corpus("modded-nanogpt-track3-multiseed/503575c5-6dde-425a-b461-2df4d99db974.txt")
    run = read_run(path)
    rows = plain(path)
    starts = [i for i, row in enumerate(rows) if row[0] == 0]
    assert len(starts) == 4
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 4150)] * 4
    last = rows[starts[-1] :]
    frame = run.signals
    assert frame["step"].to_list() == [row[0] for row in last]
    assert frame["validation_loss"].to_list() == [row[2] for row in last]
    assert run.problems == ()


LOG = """\
        print(f"step:{step}/{args.num_iterations} train_loss:{train_loss:.4f} train_time:{t}ms")
    print0(f'step:{step}/{n} val_loss:{val_loss:.4f}', console=True)
====================================================================================================
step:0/30 val_loss:10.5000 train_time:2ms step_avg:nanms
step:1/30 train_loss:10.4000 train_time:70ms step_avg:nanms
step:2/30 train_loss:nan train_time:140ms step_avg:70.00ms
step:2/30 val_loss:8.2500 train_time:141ms step_avg:70.50ms
step:3/30 train_loss:inf train_time:210ms step_avg:70.00ms
peak memory allocated: 31200 MiB reserved: 40000 MiB
step:0/30 val_loss:10.6000 train_time:2ms step_avg:nanms
step:1/30 train_loss:10.1000 train_time:71ms step_avg:71.00ms
step:2/30 train_lo"""


def test_every_field_of_two_runs(read_text):
    run = read_text(LOG)
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 3), (0, 1)]
    new = run.signals.rows(named=True)
    assert [(row["step"], row["loss"], row["validation_loss"]) for row in new] == [
        (0, None, 10.6),
        (1, 10.1, None),
    ]
    assert new[1]["train_time"] == pytest.approx(0.071)
    assert new[1]["step_avg"] == pytest.approx(0.071)
    old = {row["step"]: row for row in run.superseded.rows(named=True)}
    assert math.isnan(old[2]["loss"])
    assert old[2]["validation_loss"] == 8.25
    assert old[3]["loss"] == math.inf
    assert old[3]["memory"] == 31200 * 2**20
    assert old[3]["memory_reserved"] == 40000 * 2**20
    assert math.isnan(old[1]["step_avg"])


def test_lines_of_steps_without_a_loss(read_text):
    text = "".join(
        f"step:{step}/90 train_time:{step * 10}ms step_avg:10.00ms\n"
        + (f"step:{step}/90 val_loss:4.{step} train_time:1ms step_avg:1ms\n" if step > 8 else "")
        for step in range(1, 10)
    )
    run = read_text(text)
    assert run.signals["step"].to_list() == list(range(1, 10))
    assert run.signals["validation_loss"].to_list() == [None] * 8 + [4.9]
    assert len(run.reading["attempts"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "step:{step}/{args.num_iterations} train_loss:{loss:.4f}",
        'print("step:5/10 and so on")',
        "step: 5 loss: 2.5",
        "the step:5 of my plan",
    ],
)
def test_what_is_no_record(text):
    assert list(ModdedNanogpt().feed(Line(1, text))) == []


@pytest.mark.parametrize("text", ["x" * 10**7, "step:1/2 a:" + "1 " * 10**6, "step:" * 10**6])
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(ModdedNanogpt().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

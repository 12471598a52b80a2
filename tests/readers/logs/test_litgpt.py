"""LitGPT of now, Lit-GPT and TinyLlama."""

import math
import time

import pytest

from surefoot.readers.logs.litgpt import LitGPT
from surefoot.readers.text import Line

NOW = """\
Epoch 1 | iter 32 step 1 | loss train: 10.985, val: n/a | iter time: 350.50 ms (step) \
remaining time: 1 day, 2:03:04
Epoch 1 | iter 64 step 2 | loss train: nan, val: n/a | iter time: 351.50 ms (step) \
remaining time: 2:03:03
iter 64: val loss 9.1234, val time: 1500.50 ms
Saving checkpoint to 'out/pretrain/step-00000002/lit_model.pth'
Epoch 2 | iter 96 step 3 | loss train: 8.500, val: 9.123 | iter time: 352.50 ms (step) \
remaining time: 2:03:02
Resuming training from out/pretrain/step-00000002/lit_model.pth
Epoch 1 | iter 64 step 2 | loss train: 9.000, val: 7.000 | iter time: 352.50 ms (step) \
remaining time: 2:03:02
Final evaluation | val loss: 6.500 | val ppl: 665.142
"""


def test_litgpt(read_text):
    run = read_text(NOW)
    assert run.reading["format"] == "litgpt"
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 3), (2, 2)]
    one, two = run.signals.rows(named=True)
    assert one["loss"] == 10.985
    assert one["epoch"] == 1.0
    assert one["micro_step"] == 32.0
    assert one["micro_step_time"] == pytest.approx(0.3505)
    assert one["validation_loss"] is None
    assert two["loss"] == 9.0
    old = {row["step"]: row for row in run.superseded.rows(named=True)}
    assert math.isnan(old[2]["loss"])
    assert 9.1234 in old[2].values()
    assert 1.5005 in old[2].values()
    assert old[3]["loss"] == 8.5
    assert 9.123 not in old[3].values()
    assert run.checkpoints[0].step == 2
    assert [event.kind for event in run.events] == ["checkpoint", "resumed"]


def test_tinyllama_prints_every_micro_batch(read_text):
    lines = [
        f"iter {i} step {i // 4}: loss {10 - i / 8:.4f}, iter time: {200 + i}.50ms"
        f"{' (optimizer.step)' if i % 4 == 0 else ''} remaining time: 3.25 hours.  or 0.14 days. "
        for i in range(1, 10)
    ]
    lines.append("step 9: val loss 8.2500, val time: 20.00ms")
    run = read_text("\n".join(lines))
    rows = run.signals.rows(named=True)
    # The line that makes the update is the record of its step.
    assert [(row["step"], row["loss"]) for row in rows] == [(0, 9.875), (1, 9.5), (2, 9.0)]
    assert rows[1]["micro_step_time"] == pytest.approx(0.2045)
    assert rows[2]["validation_loss"] == 8.25
    assert run.problems == ()
    assert not {"remaining_time", "or"} & set(run.signals.columns)


@pytest.mark.parametrize(
    "text",
    [
        "iter 5: loss 2.5, time 3.00ms, mfu 2%",
        'f"iter {iter_num} step {step_count}: loss {loss.item():.4f}, iter time:"',
        "step 3: val loss 2.5",
        "Epoch 1 | step 3 | loss 2.5",
    ],
)
def test_what_is_no_record(text):
    assert list(LitGPT().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "iter 1 step 2: loss " + "a: " * 10**6, "iter 1 " * 10**6, "a=1," * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(LitGPT().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

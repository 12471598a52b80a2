"""nanoGPT and nanochat."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.nanogpt import BuildNanoGPT, Nanochat, NanoGPT
from surefoot.readers.text import Line


@pytest.mark.parametrize("name", ["issue-nanogpt-215/issue215.log", "../cases/24"])
def test_real_logs(corpus, name):
    path = corpus(name) if "cases" not in name else corpus("../cases/24-nanogpt-fp16-nan/train.log")
    iters = re.findall(
        r"iter (\d+): loss (\S+), time (\S+)ms, mfu (\S+)%", path.read_text(encoding="utf-8")
    )
    run = read_run(path)
    assert run.reading["format"] == "nanogpt"
    frame = run.signals
    assert frame["step"].to_list() == [int(step) for step, *_ in iters]
    assert frame["loss"].to_list()[:9] == [float(loss) for _, loss, *_ in iters][:9]
    assert all(math.isnan(loss) for loss in frame["loss"].to_list()[9:])
    assert len(iters) == 15
    assert frame["step_time"].to_list() == pytest.approx([float(t) / 1e3 for *_, t, _ in iters])
    assert frame["mfu"].to_list() == pytest.approx([float(m) / 100 for *_, m in iters])
    row = frame.filter(frame["step"] == 3000).row(0, named=True)
    assert row["validation_loss"] == 4.0427
    assert row["loss"] == 4.249  # not 4.0390, the estimate of the evaluation
    assert row["evaluation_train_loss"] == 4.039
    assert [info.step for info in run.checkpoints] == [3000]
    assert run.checkpoints[0].path == "out"
    assert len(run.reading["attempts"]) == 1


OLD = """\
tokens per iteration will be: 491,520
found vocab_size = 65 (inside data/x/meta.pkl)
step 0: train loss 4.2500, val loss 4.5000
iter 0: loss 4.3000, time 900.50ms, mfu -100.00%
iter 10: loss 3.2500, time 100.25ms, mfu 21.50%
iter 20: loss 2.2500, time: 500.00ms
step 20: train loss 2.1000, val loss 2.4000
saving checkpoint to out-x
Resuming training from out-x
iter 10: loss 3.1000, time 100.00ms, mfu 21.00%
step 10: train loss 3.0000, val loss na"""


def test_nanogpt_with_a_restart(read_text):
    run = read_text(OLD)
    assert run.reading["facts"] == {"tokens_per_step": 491520, "vocab_size": 65}
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 20), (10, 10)]
    assert [(e.kind, e.step) for e in run.events] == [("checkpoint", 20), ("resumed", None)]
    rows = {row["step"]: row for row in run.signals.rows(named=True)}
    assert rows[0]["loss"] == 4.3
    assert rows[0]["step_time"] == pytest.approx(0.9005)
    assert rows[0]["mfu"] is None  # -100% says: not measured
    assert rows[0]["validation_loss"] == 4.5
    assert rows[0]["evaluation_train_loss"] == 4.25
    assert rows[10]["loss"] == 3.1
    assert rows[10]["mfu"] == pytest.approx(0.21)
    lost = {row["step"]: row for row in run.superseded.rows(named=True)}
    assert lost[20]["step_time"] == 0.5
    assert lost[20]["validation_loss"] == 2.4


CHAT = """\
Distributed world size: 8
Vocab size: 65,536
Step 00000 | Validation bpb: 3.250000
step 00000/21400 (0.00%) | loss: 11.090355 | grad norm: 0.5000 | lrm: 1.00 | dt: 21500.50ms | \
tok/sec: 24,385 | mfu: 1.25 | total time: 0.00m
step 00001/21400 (0.00%) | loss: nan | lrm: 0.50 | dt: 300.00ms | tok/sec: 1,747,000 | \
bf16_mfu: 47.50 | epoch: 1 pq: 0 rg: 3 | total time: 0.25m | eta: 451.5m
Step 00001 | CORE metric: 0.2100
Step 00001 | Validation bpb: 1.125000
Saved model parameters to: /tmp/base/d20/model_000001.pt
"""


def test_nanochat(read_text):
    run = read_text(CHAT)
    assert run.reading["format"] == "nanochat"
    assert run.reading["facts"] == {
        "world_size": 8,
        "vocab_size": 65536,
        "loss_is": "moving average",
        "steps": 21400,
    }
    first, second = run.signals.rows(named=True)
    assert first["loss"] == 11.090355
    assert first["grad_norm"] == 0.5
    assert first["lrm"] == 1.0
    assert first["step_time"] == pytest.approx(21.5005)
    assert first["mfu"] == pytest.approx(0.0125)
    assert first["tokens_per_second"] == 24385.0
    assert first["validation_bpb"] == 3.25
    assert "validation_loss" not in run.signals.columns
    assert math.isnan(second["loss"])
    assert second["grad_norm"] is None
    assert second["total_time"] == 15.0
    assert second["eta"] == 451.5 * 60
    assert second["epoch"] == 1.0
    assert second["core_metric"] == 0.21
    assert second["bf16_mfu"] == pytest.approx(0.475) or second["mfu"] == pytest.approx(0.475)
    assert run.checkpoints[0].step == 1


def test_nanochat_of_the_later_stages(read_text):
    run = read_text(
        "Step 00010/00700 | Training loss: 1.234500| lrm: 0.99| num_tokens: 10,000\n"
        "Step 00010 | Validation loss: 1.500000\n"
        "step 00011 (1.50%) | loss: 1.25 | lrm: 0.98 | dt: 90.00ms | tok/sec: 5,000 | "
        "mfu: 3.00 | epoch: 1 | total time: 0.50m\n"
    )
    first, second = run.signals.rows(named=True)
    assert first["loss"] == 1.2345
    assert first["validation_loss"] == 1.5
    assert first["num_tokens"] == 10000.0
    assert 1.25 in (second.get("loss"), second.get("loss_2"))


@pytest.mark.parametrize(
    "text",
    [
        'print(f"iter {iter_num}: loss {lossf:.4f}, time {dt*1000:.2f}ms")',
        "in step 3: we divide the loss by two",
        "iter 3: the loss grows",
        "step 5 | loss 2.5 | lr 1e-4",
        "| epoch 001 | loss 2.5 | num_updates 5",
        "Iter 5: Train loss 2.5, Learning Rate 1e-5",
    ],
)
def test_what_is_no_record(text):
    assert list(NanoGPT().feed(Line(1, text))) == []
    assert list(Nanochat().feed(Line(1, text))) == []


@pytest.mark.parametrize("parser", [NanoGPT, Nanochat])
@pytest.mark.parametrize(
    "text", ["x" * 10**7, "iter 1: loss " + "1 " * 10**6, "step 1/2 | loss: " * 10**5, ": " * 10**6]
)
def test_long_lines_take_no_time(parser, text):
    begin = time.process_time()
    list(parser().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_the_log_file_of_the_lecture(read_text):
    run = read_text(
        "0 val 10.5000\n0 hella 0.2500\n0 train 10.750000\n1 train nan\n2 val 9.5\n3 tra"
    )
    assert run.reading["format"] == "build-nanogpt"
    zero, one, two = run.signals.rows(named=True)
    assert (zero["loss"], zero["validation_loss"], zero["hellaswag_accuracy"]) == (
        10.75,
        10.5,
        0.25,
    )
    assert math.isnan(one["loss"])
    assert (two["step"], two["loss"], two["validation_loss"]) == (2, None, 9.5)


@pytest.mark.parametrize("text", ["in 5 train 3", "5 train 3 cars", "5 trains 3", "5 val three"])
def test_what_is_no_line_of_the_lecture(text):
    assert list(BuildNanoGPT().feed(Line(1, text))) == []

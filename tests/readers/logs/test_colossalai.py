"""ColossalAI: losses of bars, each told once, and the lines of its GPT scripts."""

import math
import time

import pytest

from surefoot.readers.logs.colossalai import ColossalAI
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line


def drawn(done, loss, epoch=0, total=4, key="loss"):
    part = f"Epoch {epoch}:  10%|#         | {done}/{total} [00:10<01:40,  1.20it/s"
    return f"{part}, {key}={loss}]" if loss is not None else f"{part}]"


def points(texts):
    parser = ColossalAI()
    texts = ["INFO     colossalai - colossalai - INFO: Distributed environment is set up", *texts]
    items = [i for n, text in enumerate(texts) for i in parser.feed(Line(n, text))]
    return [i for i in [*items, *parser.finish()] if isinstance(i, Point)]


def test_a_loss_is_drawn_before_and_after_its_step_is_counted(read_text):
    texts = [drawn(0, None), drawn(0, 10.5), drawn(1, 10.5), drawn(1, 9.5), drawn(2, 9.5)]
    texts += [drawn(2, "nan"), drawn(3, "nan"), drawn(3, 8.5), drawn(4, 8.5)]
    texts += [drawn(0, None, 1), drawn(0, 8.25, 1), drawn(1, 8.25, 1), drawn(1, 8.125, 1)]
    bars = "\r".join(texts) + "\n"
    run = read_text(f"Booster init max CUDA memory: 100.00 MB\n{bars}")
    assert run.reading["format"] == "colossalai"
    assert "colossalai" not in str(read_text(bars).reading)  # nobody says whose bars they are
    assert run.signals["step"].to_list() == [1, 2, 3, 4, 5, 6]
    losses = run.signals["loss"].to_list()
    assert losses[:2] + losses[3:] == [10.5, 9.5, 8.5, 8.25, 8.125]
    assert math.isnan(losses[2])
    assert run.signals["epoch"].to_list() == [0, 0, 0, 0, 1, 1]


def test_bars_that_are_drawn_once_a_step():
    told = points(
        [drawn(1, 10.5, key="Loss"), drawn(2, 9.5, key="Loss"), drawn(3, 9.25, key="Loss")]
    )
    assert [(p.step, p.values["Loss"]) for p in told] == [(1, 10.5), (2, 9.5), (3, 9.25)]


def test_equal_losses_one_after_another_are_steps_of_their_own():
    told = points([drawn(0, 5.0), drawn(1, 5.0), drawn(2, 5.0), drawn(3, 5.0), drawn(3, 4.0)])
    assert [(p.step, p.values["loss"]) for p in told] == [(1, 5.0), (2, 5.0), (3, 5.0), (4, 4.0)]


def test_lines_of_the_gpt_scripts(read_text):
    run = read_text(
        "[05/12/23 10:00:00] INFO colossalai - colossalai - INFO: train_gpt_demo.py:300 main\n"
        "INFO colossalai - colossalai - INFO: [1/10] Loss:10.500, Step time: 1.250s, TFLOPS: "
        "40.500, FWD time: 0.500s, BWD time: 0.600s, OPTIM time: 0.150s\n"
        "INFO colossalai - colossalai - INFO: [2/10] Loss: 9.500, Step time: 1.000s, TFLOPS: "
        "50.500, Peak memory usage: 1024.00 MB\n"
    )
    one, two = run.signals.rows(named=True)
    expected = {
        "step": 1,
        "loss": 10.5,
        "step_time": 1.25,
        "tflops_per_device": 40.5,
        "forward_time": 0.5,
        "backward_time": 0.6,
        "optimizer_time": 0.15,
    }
    assert {key: one[key] for key in expected} == pytest.approx(expected)
    assert (two["loss"], two["memory"]) == (9.5, 1024.0 * 2**20)
    assert run.reading["facts"]["steps"] == 10


def test_what_is_told_of_checkpoints():
    parser = ColossalAI()
    texts = [
        "Loaded checkpoint /ckpt/epoch0-step20 at epoch 0 step 20",
        "Saved checkpoint at epoch 0 step 40 at folder /ckpt",
        "Saved checkpoint at epoch 1 step 5",
    ]
    told = [item for text in texts for item in parser.feed(Line(1, text))]
    assert told == [
        Note("resumed", 20, 1),
        Note("checkpoint", 40, 1, {"path": "/ckpt"}),
        Note("checkpoint", None, 1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Map:  10%|#         | 100/1000 [01:23<12:34,  1.20it/s, loss=2.34]",
        "[Epoch 0 / Eval]:  10%|#    | 1/10 [01:23<12:34,  1.20it/s, loss=2.34]",
        "epoch 0 step 5 loss=2.5",
        'f"[{n + 1}/{NUM_STEPS}] Loss:{loss.item():.3f}, Step time: {step_time:.3f}s"',
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert points([text]) == []


@pytest.mark.parametrize(
    "text",
    [
        "loss=" + "x" * 2**20,
        "loss=%|" + "1 " * 2**19,
        "] Loss: 1 [1/2] Loss: 1" + "a: " * 2**18,
        "[1/2] Loss: 1" + ", a b c: 1" * 2**16,
        "[1/2] " * 2**17 + "] Loss:",
        "%| 1/2 [00:00<00:00, loss=1, " + "a=1, " * 2**17,
        "Saved checkpoint at epoch " * 2**15,
        "Epoch 0: " * 2**16 + "loss=%|",
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(ColossalAI().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0

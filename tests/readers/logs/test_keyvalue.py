"""Any line with a step and a metric; what specific formats read is theirs."""

import math
import time

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs.keyvalue import KeyValue
from surefoot.readers.points import Note, Point
from surefoot.readers.text import Line


def point(text):
    found = [item for item in KeyValue().feed(Line(1, text)) if isinstance(item, Point)]
    assert len(found) == 1, text
    return found[0]


def test_the_real_log(corpus):
    run = read_run(corpus("issue-minfm-4/issue4.log"))
    assert run.reading["format"] == "keyvalue"
    frame = run.signals
    assert frame["step"].to_list() == [1557, 1558, 1559, 1560]
    assert frame["update_skipped"].to_list() == [1, 1, 1, 1]
    last = frame.row(-1, named=True)
    expected = {
        "loss": 0.5275, "learning_rate": 3e-4, "grad_norm": 2.29, "tokens_per_second": 16880.0,
        "data": 0.007, "frozen": 0.097, "trainablefwd": 0.701, "trainablebwd": 1.170,
    }  # fmt: skip
    assert {key: last[key] for key in expected} == pytest.approx(expected)
    assert frame["loss"].to_list()[:3] == [None] * 3
    skipped = [event for event in run.events if event.kind == "update_skipped"]
    assert [event.step for event in skipped] == [1557, 1558, 1559, 1560]
    # The words nan and inf in its message are no values.
    assert skipped[0].data == {"norm": 2.1966569423675537}


@pytest.mark.parametrize(
    ("text", "step", "values"),
    [
        ("Step    100 | Loss: 2.5 | LR: 3e-04", 100, {"Loss": 2.5, "LR": 3e-4}),
        ("步数: 100, 损失: 2.5, 学习率: 3e-4", 100, {"损失": 2.5, "学习率": 3e-4}),
        ("步数：100，损失：2.5", 100, {"损失": 2.5}),
        ("ステップ: 10 損失: 2.5 学習率: 0.001", 10, {"損失": 2.5, "学習率": 0.001}),
        ("Epoch 3 Step 100/2000 loss=2.5 lr=1e-4", 100, {"Epoch": 3.0, "loss": 2.5, "lr": 1e-4}),
        ("step 3 loss 2.5 lr 1e-3 tokens/s 1200", 3, {"loss": 2.5, "lr": 1e-3, "tokens/s": 1200.0}),
        ("trainer INFO iter: 5 loss: 2.5 unheard_of: 7", 5, {"loss": 2.5, "unheard_of": 7.0}),
        ("epoch: 1, batch: 10, loss: 2.5", 10, {"epoch": 1.0, "loss": 2.5}),
        ("step: 9, batch: 32, loss: 2.5", 9, {"batch": 32.0, "loss": 2.5}),
        ("loss=2.5 norm=1.5 global_step=1,024", 1024, {"loss": 2.5, "norm": 1.5}),
        ("train.py:12 step=7 loss=2.5", 7, {"loss": 2.5}),
        ("step 8 | loss: nan", 8, {"loss": math.nan}),
        ("step 8 | loss: 1,234.5 | memory: 2.5GB", 8, {"loss": 1234.5, "memory (GB)": 2.5}),
        ("step: 100 | foo: 2.5 | bar: 4", 100, {"foo": 2.5, "bar": 4.0}),  # the user may know
    ],
)
def test_lines(text, step, values):
    told = point(text)
    assert told.step == step
    assert not told.evaluation
    assert told.values == pytest.approx(values, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step 200: val loss 3.5", {"val loss": 3.5}),
        ("[eval] step 200 loss 3.5", {"val loss": 3.5}),
        ("验证 | 步数: 200 | 损失: 3.5", {"val 损失": 3.5}),
        ("Validation step 200: loss=3.5, time=2", {"val loss": 3.5, "time": 2.0}),
    ],
)
def test_validation(text, values):
    told = point(text)
    assert (told.step, told.values, told.evaluation) == (200, values, True)


@pytest.mark.parametrize(
    "text",
    [
        "step 5 of 10: loading 3 files",
        "Saved checkpoint at step 500 in 3.2 s",
        'print(f"step {step}: loss {loss:.4f}")',
        "    loss: 2.5",
        "batch size: 32 lr: 0.1 loss: 3",
        "[INFO] [Rank 0] step=0, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]",
        "- loss 2.17 -> 2.05, grad norm 2.16 -> 1.76: no drift before the NaN at step 644.",
        "I will step in 5 minutes and the loss is 3",
        "step nan loss 2.5",
        "step -3 loss 2.5",
        "step 2.5 loss 2.5",
    ],
)
def test_what_is_no_record(text):
    assert list(KeyValue().feed(Line(1, text))) == []


def test_a_skipped_step_is_a_note():
    (note,) = KeyValue().feed(Line(4, "step 7: gradient norm=9.5 too large, skipping update"))
    assert note == Note("update_skipped", 7, 4, {"gradient_norm": 9.5})


def test_steps_that_each_epoch_counts_anew(read_text):
    run = read_text(
        "Epoch:[1/2](100/500) loss:7.250 lr:0.000500000000 epoch_Time:12.0min:\n"
        "Epoch:[1/2](400/500) loss:6.250 lr:0.000500000000 epoch_Time:12.0min:\n"
        "Epoch:[2/2](0/500) loss:5.250 lr:0.000400000000 epoch_Time:12.0min:\n"
    )
    assert run.signals.select("step", "loss").rows() == [(100, 7.25), (400, 6.25), (500, 5.25)]
    assert run.signals["epoch"].to_list() == [1.0, 1.0, 2.0]
    assert len(run.reading["attempts"]) == 1
    assert run.reading["facts"]["steps_are"] == "counted over epochs"


def test_a_whole_run_with_a_restart_and_a_cut_line(read_text):
    lines = [f"step {n}/50 | loss: {5 - n / 10} | lr: 0.001 | 50 tok/s" for n in range(1, 9)]
    lines += ["[val] step 8 loss: 4.5", *lines[3:6], "step 7/50 | lo"]
    run = read_text("\n".join(lines))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 8), (4, 6)]
    assert run.signals["loss"].to_list() == [5 - n / 10 for n in range(1, 7)]
    assert run.superseded["validation_loss"].to_list()[-1] == 4.5
    assert run.reading["facts"]["steps"] == 50
    assert run.reading["sure"] < 0.3


def test_the_users_own_names(read_text):
    text = "step: 1 | ce: 2.5 | q: 7\nstep: 2 | ce: 2.25 | q: 8\n"
    run = read_text(text, format_in="keyvalue", mapping={"loss": "q"})
    assert run.signals["loss"].to_list() == [7.0, 8.0]


def test_prose_is_no_run(read_text):
    with pytest.raises(LogError):
        read_text("We took step 3 and then 4.\nThe loss was great.\nStep 5: rest for 2 days.\n")


@pytest.mark.parametrize(
    "text",
    ["x" * 10**7, "step 1 loss " + "a=1," * 10**6, "iter 1 " * 10**6, "[" * 10**7, ": " * 10**6],
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(KeyValue().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_bars_that_tell_a_loss(read_text):
    run = read_text(
        "Steps:  10%|#  | 100/1000 [01:00<09:00, 1.6it/s, loss=2.5, lr=1e-4]\r"
        "Steps:  10%|#  | 101/1000 [01:00<09:00, 1.6it/s, loss=2.5, lr=1e-4]\r"
        "Steps:  10%|#  | 101/1000 [01:00<09:00, 1.6it/s, loss=2.25, lr=2e-4]\n"
        "Evaluating: 10%|#| 1/9 [0:00<0:00, 1.0it/s, loss=9]\n"
        "Loading: 10%|#| 2/9 [0:00<0:00, 1.0it/s]\n"
    )
    # The bar moves on before its new numbers are set: what is drawn last of a step counts.
    assert run.signals.select("step", "loss", "learning_rate").rows() == [
        (100, 2.5, 1e-4),
        (101, 2.25, 2e-4),
    ]
    assert run.problems == ()


def test_bars_of_several_epochs(read_text):
    run = read_text(
        "Epoch 1/3: 100%|#| 50/50 [01:00<09:00, 1.6it/s, loss=2.5]\n"
        "Epoch 2/3:  20%|#| 10/50 [01:00<09:00, 1.6it/s, loss=2.25]\n"
    )
    assert run.signals.select("step", "loss", "epoch").rows() == [(50, 2.5, 1.0), (60, 2.25, 2.0)]


def test_a_validation_line_is_of_the_step_before(read_text):
    run = read_text(
        "validation loss: 10.75\nstep     0 | loss: 10.5 | norm: 15.25 | dt: 250.00ms\n"
        "step     1 | loss: 10.25 | norm: 5.5 | dt: 200.00ms\nvalidation loss: 9.5\n"
        "the validation was long: 3\n"
    )
    zero, one = run.signals.rows(named=True)
    assert (zero["loss"], zero["grad_norm"], zero["validation_loss"]) == (10.5, 15.25, None)
    assert zero["step_time"] == 0.25
    assert (one["loss"], one["validation_loss"]) == (10.25, 9.5)


def test_a_loop_within_a_loop_does_not_tell_the_step(read_text):
    run = read_text(
        "train | inner iter:   7/  8 | ppo epoch:  2/ 4 | global iter:     13/  5000| loss: 2.50\n"
        "train | inner iter:   1/  8 | ppo epoch:  3/ 4 | global iter:     14/  5000| loss: 2.25\n"
    )
    assert run.signals["step"].to_list() == [13, 14]
    assert run.signals["loss"].to_list() == [2.5, 2.25]


def test_what_a_trainer_returns_is_no_step(read_text):
    run = read_text(
        "step 900 | loss: 1.25\n"
        "TrainOutput(global_step=1000, training_loss=2.5, metrics={'train_runtime': 300.0})\n"
    )
    assert run.signals["step"].to_list() == [900]
    assert run.signals["loss"].to_list() == [1.25]

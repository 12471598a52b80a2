"""PyTorch Lightning's bars."""

import math
import time

import pytest

from surefoot.readers.logs.lightning import Lightning
from surefoot.readers.text import Line

LOG = (
    "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:00<00:00,  5.00it/s]\r"
    "Epoch 0:   0%|          | 0/50 [00:00<?, ?it/s]\r"
    "Epoch 0:  50%|█████     | 25/50 [00:02<00:02,  9.50it/s, v_num=3, train_loss_step=3.500]\r"
    "Epoch 0: 100%|██████████| 50/50 [00:05<00:00,  9.50it/s, v_num=3, train_loss_step=nan.0]\r"
    "Validation DataLoader 0: 100%|##########| 2/2 [00:00<00:00,  5.00it/s]\r"
    "Epoch 0: 100%|██████████| 50/50 [00:05<00:00,  9.50it/s, v_num=3, train_loss_step=3.250, "
    "val_loss=3.125, train_loss_epoch=3.375]"
    "Epoch 0, global step 50: 'val_loss' reached 3.12500 (best 3.12500), saving model to "
    "'/c/epoch=0-step=50.ckpt' as top 1\n"
    "Epoch 1:  50%|█████     | 25/50 [00:02<00:02,  9.50it/s, v_num=3, train_loss_step=3.000, "
    "val_loss=3.125, train_loss_epoch=3.375]\r"
    "Epoch 1: 100%|██████████| 50/50 [00:05<00:00,  9.50it/s, v_num=3, train_loss_step=2.750, "
    "val_loss=2.500, train_loss_epoch=2.875]\r"
)


def test_steps_go_on_over_epochs(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "lightning"
    assert run.reading["facts"]["steps_are"] == "batches"
    frame = run.signals
    assert frame.select("step", "loss").rows() == [(25, 3.5), (50, 3.25), (75, 3.0), (100, 2.75)]
    # Drawn again until there is a new one: told once.
    assert frame["validation_loss"].to_list() == [None, 3.125, None, 2.5]
    assert frame["epoch_mean_loss"].to_list() == [None, 3.375, None, 2.875]
    assert frame["epoch"].to_list() == [0.0, 0.0, 1.0, 1.0]
    assert "v_num" not in frame.columns
    assert (run.checkpoints[0].step, run.checkpoints[0].path) == (50, "/c/epoch=0-step=50.ckpt")
    assert len(run.reading["attempts"]) == 1


def test_a_global_step_counts(read_text):
    run = read_text(
        "Epoch 2:  10%|#  | 10/100 [00:10<01:30, 1.0it/s, loss=10.5, v_num=1, global_step=70.0]\n"
        "Epoch 2:  20%|#  | 20/100 [00:20<01:20, 1.0it/s, loss=nan, v_num=1, global_step=80.0]\n"
    )
    assert run.signals["step"].to_list() == [70, 80]
    assert run.signals["loss"][0] == 10.5
    assert math.isnan(run.signals["loss"][1])
    assert "steps_are" not in run.reading["facts"]


def test_it_begins_in_a_later_epoch_and_restarts(read_text):
    run = read_text(
        "Epoch 3:  10%|#  | 10/100 [00:10<01:30, 1.0it/s, v_num=1, train_loss=2.5]\n"
        "Restoring states from the checkpoint path at /c/last.ckpt\n"
        "Epoch 1:  10%|#  | 10/100 [00:10<01:30, 1.0it/s, v_num=1, train_loss=2.75]\n"
    )
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(310, 310), (110, 110)]


def test_the_bar_of_rich(read_text):
    run = read_text(
        "Epoch 0/9 ━━━━━━━━━━━━━━━━ 25/100 0:00:12 • 0:00:36 2.00it/s v_num: 0 train_loss: 2.5\n"
    )
    assert run.signals.select("step", "loss").rows() == [(25, 2.5)]


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 0: 10%|#| 10/100 [00:01<00:02, 9it/s]",
        "Epoch 3 loss 2.5",
        "train: 10%|#| 1/2 [00:01<00:02, 9it/s, loss=2.5]",
        "In Epoch 0: 'val_loss' reached 3",
    ],
)
def test_what_is_no_record(text):
    assert list(Lightning().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "Epoch 0: 10%|#| 1/2 [0<0, 1it/s, " + "a=1," * 10**6, "Epoch " * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(Lightning().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_loops_of_others_count_epochs_from_one(read_text):
    run = read_text(
        "Epoch 1: 100%|#| 50/50 [00:10<00:00, 1.0it/s, loss=2.5]\n"
        "Epoch 2:  20%|#| 10/50 [00:10<00:00, 1.0it/s, loss=2.25]\n"
    )
    assert run.signals.select("step", "loss").rows() == [(50, 2.5), (60, 2.25)]

"""mmengine, xtuner, and mmcv before them."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.mmengine import MMEngine
from surefoot.readers.text import Line


def test_the_real_log(corpus):
    path = corpus("issue-xtuner-187/issue187.log")
    found = re.findall(
        r"\[1\]\[(\d+)/735\]  lr: (\S+) .*?time: (\S+)  data_time: (\S+)  memory: (\d+)  "
        r"loss: (\S+)  grad_norm: (\S+)",
        path.read_text(),
    )
    run = read_run(path)
    assert run.reading["format"] == "mmengine"
    assert run.signals["step"].to_list() == [int(row[0]) for row in found]
    assert len(found) == 6
    for number, name in [(1, "learning_rate"), (2, "step_time"), (3, "data_time"), (5, "loss")]:
        assert run.signals[name].to_list() == [float(row[number]) for row in found]
    assert run.signals["memory"].to_list() == [int(row[4]) * 2**20 for row in found]
    norms = run.signals["grad_norm"].to_list()
    assert norms[:4] == [float(row[6]) for row in found[:4]]
    assert all(math.isnan(norm) for norm in norms[4:])


HEAD = "10/30 22:18:02 - mmengine - INFO - "


def test_steps_go_on_over_epochs(read_text):
    run = read_text(
        f"{HEAD}Epoch(train)  [1][ 50/100]  lr: 1.5000e-04  eta: 2:46:39  time: 2.5000  "
        "data_time: 0.2500  memory: 1000  loss: 3.5000  decode.loss_ce: 0.2500\n"
        f"{HEAD}Epoch(train)  [1][100/100]  lr: 1.4000e-04  eta: 1 day, 2:46:39  time: 2.0000  "
        "data_time: 0.2500  memory: 1000  loss: nan\n"
        f"{HEAD}Saving checkpoint at 1 epochs\n"
        f"{HEAD}Epoch(val)  [1][10/20]    eta: 0:00:39  time: 9.0000\n"
        f"{HEAD}Epoch(val)  [1][20/20]    loss: 2.7500  accuracy/top1: 75.5000  time: 0.5000\n"
        f"{HEAD}Epoch(train)  [2][ 50/100]  lr: 1.3000e-04  time: 2.0000  loss: 3.0\n"
        f"{HEAD}resumed epoch: 1, iter: 100\n"
        f"{HEAD}Epoch(train)  [2][ 10/100]  lr: 1.3000e-04  loss: inf"
    )
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(50, 150), (110, 110)]
    first, second, third = run.signals.rows(named=True)
    assert (first["step"], second["step"], third["step"]) == (50, 100, 110)
    assert first["step_time"] == 2.5
    assert first["data_time"] == 0.25
    assert first["epoch"] == 1.0
    assert first["memory"] == 1000 * 2**20
    assert first["decode.loss_ce"] == 0.25
    assert math.isnan(second["loss"])
    assert second["validation_loss"] == 2.75
    assert second["val_accuracy_top1"] == 75.5
    assert second["step_time"] == 2.0
    assert third["loss"] == math.inf
    assert [info.step for info in run.checkpoints] == [100]


def test_by_iteration(read_text):
    run = read_text(
        f"{HEAD}Iter(train) [   10/1,000]  lr: 1\n{HEAD}Iter(train) [  10/1545]  lr: 4.5000e-05  "
        "eta: 4:17:00  time: 10.5000  data_time: 0.0105  memory: 7529  loss: 1.8750\n"
        f"{HEAD}Saving checkpoint at 10 iterations\n"
        f"{HEAD}Iter(val) [17/17]    aAcc: 86.5000  mIoU: 51.2500\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["val_miou"]) == (10, 1.875, 51.25)
    assert run.reading["facts"] == {"steps": 1545}
    assert run.checkpoints[0].step == 10


def test_mmcv(read_text):
    run = read_text(
        "2021-05-01 10:00:00,000 - mmdet - INFO - Epoch [2][50/500]\tlr: 2.000e-02, eta: 1:00:00, "
        "time: 0.500, data_time: 0.050, memory: 3000, loss: 1.5000\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["learning_rate"]) == (550, 1.5, 0.02)
    assert row["memory"] == 3000 * 2**20
    run = read_text("mmseg - INFO - Iter [60/80000]\tlr: 1.000e-02, loss: 1.2500\n")
    assert run.signals["step"].to_list() == [60]
    assert run.signals["loss"].to_list() == [1.25]


@pytest.mark.parametrize(
    "text",
    [
        "log_str = f'Epoch({mode}){cur_epoch_str}[{cur_iter_str}/{dataloader_len}]  '",
        "Epoch 0: 10%|#| 1/2 [00:01<00:02, 1it/s, loss=2]",
        "Iter 5: Train loss 2.5",
        "Epoch [1/5] loss 2.5",
    ],
)
def test_what_is_no_record(text):
    assert list(MMEngine().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "Epoch(train) [1][2/3] " + "a=1," * 10**6, "Epoch [" * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(MMEngine().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_the_time_left_is_no_field(read_text):
    run = read_text(
        "2025/02/09 07:49:32 - mmengine - INFO - Iter(train) [ 8859/96000]  lr: 9.5e-06  "
        "eta: 18 days, 16:13:38  time: 16.25  data_time: 0.0440  memory: 54047  loss: 0.5000\n"
    )
    assert "eta" not in run.signals.columns
    row = run.signals.row(0, named=True)
    assert (row["step"], row["step_time"], row["loss"]) == (8859, 16.25, 0.5)


def test_lines_of_xtuners_own_trainers(read_text):
    run = read_text(
        "[XTuner][RANK 0][DP 0][2024-12-05 10:00:00][INFO] [Train] (Epoch 1) Step 10/100  "
        "lr: 0.000020  loss: 1.250  loss(reduced): 1.125  grad_norm: 2.50  if_nan_skip: 0  "
        "max_memory: 33.0GB  text_tokens: 32000.0  tgs: 1234  data_time: 0.10s  time: 2.50s  "
        "eta: 0:10:00\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["epoch"], row["loss"], row["loss_reduced"]) == (10, 1.0, 1.25, 1.125)
    assert (row["learning_rate"], row["grad_norm"], row["step_time"]) == (2e-5, 2.5, 2.5)
    assert row["memory"] == 33.0 * 2**30
    assert row["tokens_per_second_per_device"] == 1234.0
    assert run.reading["facts"] == {"steps": 100}

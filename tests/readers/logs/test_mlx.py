"""mlx-lm."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.mlx import Mlx
from surefoot.readers.text import Line


def test_the_real_log(corpus):
    path = corpus("issue-mlx-examples-620/issue620.log")
    text = path.read_text()
    run = read_run(path)
    assert run.reading["format"] == "mlx"
    lines = re.findall(r"Iter (\d+): Train loss (\S+), .*?Rate (\S+), It/sec (\S+), (.*)", text)
    frame = run.signals.drop_nulls("loss")
    assert len(lines) == 8
    assert frame["step"].to_list() == [int(line[0]) for line in lines]
    assert frame["loss"].to_list() == [float(line[1]) for line in lines]
    assert frame["learning_rate"].to_list() == [float(line[2]) for line in lines]
    rest = [re.findall(r"[\d.]+(?= GB|,)", line[4]) for line in lines]
    assert frame["tokens_per_second"].to_list() == [float(r[0]) for r in rest]
    assert frame["consumed_tokens"].to_list() == [int(r[1]) for r in rest]
    assert frame["memory"].to_list() == pytest.approx([float(r[2]) * 1e9 for r in rest])
    assert run.signals.row(0, named=True)["validation_loss"] == 2.086
    assert [info.step for info in run.checkpoints] == [100, 200]
    assert run.checkpoints[0].path == "checkpoints/100_adapters.npz"
    assert run.reading["facts"]["steps"] == 2596


def test_every_field(read_text):
    run = read_text(
        "Node 0 of 4\nStarting training..., iters: 40\n"
        "Iter 1: Val loss 3.500, Val took 12.500s\n"
        "Iter 10: Train loss nan, Learning Rate 1.500e-05, It/sec 0.500, Tokens/sec 250.500, "
        "Trained Tokens 5000, Peak mem 9.500 GB\n"
        "Iter 20: Train loss 2.250, It/sec 0.250, Tokens/sec 125.000\n"
        "Iter 20: Val loss 2.750, Val took 11.000s\n"
        "Iter 20: Saved adapter weights to a/adapters.safetensors and "
        "a/0000020_adapters.safetensors.\nTest loss 2.500, Test ppl 12.182.\n"
        "Iter 10: Train loss 3.125, It/sec 0.5"
    )
    assert run.reading["facts"] == {"world_size": 4, "steps": 40}
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 20), (10, 10)]
    first, again = run.signals.rows(named=True)
    assert first["validation_loss"] == 3.5
    assert first["val_took"] == 12.5
    assert again["loss"] == 3.125
    assert again["it_sec"] == 0.5
    ten, twenty = run.superseded.rows(named=True)
    assert math.isnan(ten["loss"])
    assert ten["memory"] == 9.5e9
    assert twenty["validation_loss"] == 2.75
    assert twenty["test_loss"] == 2.5
    assert run.checkpoints[0].path == "a/adapters.safetensors"


@pytest.mark.parametrize(
    "text", ['f"Iter {it}: Train loss {train_loss:.3f}, "', "iter 5: loss 2.5", "Iter 3: loss 2"]
)
def test_what_is_no_record(text):
    assert list(Mlx().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "Iter 1: Train loss " + "1 " * 10**6, "Iter " * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(Mlx().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_the_peak_of_memory_under_its_short_name(read_text):
    run = read_text(
        "Iter 5: Train loss 3.25, Learning Rate 1.000e-05, It/sec 0.165, Tokens/sec 282.5, "
        "Trained Tokens 8557, Peak 56.5 GB\n"
    )
    assert run.signals["memory"].to_list() == [56.5e9]

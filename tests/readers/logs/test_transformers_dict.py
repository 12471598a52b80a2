"""Dictionaries of the Transformers trainer: steps from bars, from ms-swift, or counted."""

import json
import math
import re
import time

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs.transformers_dict import TransformersDict
from surefoot.readers.text import Line


def test_the_step_of_the_bar_beside(corpus):
    run = read_run(corpus("issue-llamafactory-8439-npu910b/stdout.log"))
    assert run.reading["format"] == "transformers"
    row = run.signals.row(0, named=True)
    assert (len(run.signals), row["step"], row["loss"], row["epoch"]) == (1, 60, 0.0, 0.02)
    assert math.isnan(row["grad_norm"])
    assert row["learning_rate"] == 4.510703363914373e-06
    assert run.reading["facts"] == {"steps": 13080}


def test_records_are_counted_without_bars(corpus):
    path = corpus("../cases/11-hf-npu-nan-then-zero/train.log")
    rows = re.findall(
        r"'loss': (\S+), 'grad_norm': (\S+), 'learning_rate': (\S+), ", path.read_text()
    )
    run = read_run(path)
    assert run.signals["step"].to_list() == list(range(1, 11))
    assert run.signals["loss"].to_list() == [float(row[0]) for row in rows]
    assert run.signals["learning_rate"].to_list() == [float(row[2]) for row in rows]
    norms = run.signals["grad_norm"].to_list()
    assert norms[:6] == [float(row[1]) for row in rows[:6]]
    assert all(math.isnan(norm) for norm in norms[6:])
    assert run.reading["facts"]["steps_are"] == "records"


def bar(n, total=90):
    return f"  {n}%|#         | {n}/{total} [00:10<01:00,  1.00s/it]"


WITH_BARS = (
    "\r".join([bar(8), bar(9)])
    + f"""\r\
{" " * 40}\r{{'loss': 3.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.11}}
\r{bar(10)}\r{bar(19)}\r{" " * 20}\r\
{{'loss': 'nan', 'grad_norm': 'inf', 'learning_rate': '4e-05', 'epoch': '0.22'}}
\r{bar(20)}
{bar(1, 5)}\r{bar(5, 5)}\r\
{{'eval_loss': 3.25, 'eval_runtime': 2.5, 'eval_samples_per_second': 80.0, 'epoch': 0.22}}
\r{bar(20)}\rSaving model checkpoint to out/checkpoint-20
{bar(29)}\r{{'loss': 3.0, 'grad_norm': 1.0, 'learning_rate': 3e-05, 'epoch': 0.33}}
{bar(30)}
{{'train_runtime': 90.5, 'train_samples_per_second': 8.0, 'train_loss': 9.5, 'epoch': 1.0}}
"""
)


def test_a_bar_that_lags_is_not_believed(read_text):
    run = read_text(WITH_BARS)
    frame = run.signals
    # tqdm draws at most every tenth of a second, but always after the dictionary.
    assert frame["step"].to_list() == [10, 20, 30]
    assert frame["loss"][0] == 3.5
    assert math.isnan(frame["loss"][1])
    assert frame["loss"][2] == 3.0
    assert frame["grad_norm"].to_list() == [1.25, math.inf, 1.0]
    assert frame["learning_rate"].to_list() == [5e-5, 4e-5, 3e-5]
    assert frame["validation_loss"].to_list() == [None, 3.25, None]
    assert frame["eval_runtime"].to_list() == [None, 2.5, None]
    # The summary is no record of a step.
    assert run.reading["facts"] == {"steps": 90, "train_runtime": 90.5, "mean_loss": 9.5}
    assert [info.step for info in run.checkpoints] == [20]
    assert len(run.reading["attempts"]) == 1


def test_ms_swift_tells_its_step(read_text):
    run = read_text(
        "Train:   2%|2 | 1/40 [01:08<44:41, 68.75s/it]{'loss': '2.5', 'grad_norm': '10.5', "
        "'learning_rate': '2e-06', 'token_acc': '0.75', 'epoch': '0.01', 'global_step/max_steps': "
        "'1/40', 'percentage': '1.06%', 'elapsed_time': '2s', 'memory(GiB)': '4.5', "
        "'train_speed(s/it)': '68.75'}\n"
        "{'loss': 2.25, 'epoch': 0.05, 'global_step/max_steps': '5/40', 'remaining_time': '4m'}\n"
        "{'eval_loss': 2.125, 'epoch': 0.05, 'global_step/max_steps': '5/40'}\n"
        "{'train_runtime': '9.5', 'epoch': '1', 'global_step/max_steps': '5/40'}\n"
    )
    one, five = run.signals.rows(named=True)
    assert (one["step"], one["loss"], one["grad_norm"]) == (1, 2.5, 10.5)
    assert one["memory"] == 4.5 * 2**30
    assert one["step_time"] == 68.75
    assert one["epoch"] == 0.01
    assert one["accuracy"] == 0.75
    assert (five["step"], five["loss"], five["validation_loss"]) == (5, 2.25, 2.125)
    assert run.reading["facts"]["steps"] == 40


def test_a_restart_without_bars(read_text):
    def record(loss, epoch):
        return f"{{'loss': {loss}, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n"

    run = read_text(
        "".join(record(5 - n / 4, n / 10) for n in range(1, 6))
        + "".join(record(4.5 - n / 4, n / 10) for n in range(3, 7))
    )
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 5), (3, 6)]
    assert run.signals["loss"].to_list() == [4.75, 4.5, 3.75, 3.5, 3.25, 3.0]


def test_one_record_told_by_a_logger_too(read_text):
    run = read_text(
        "[INFO|callbacks.py:310] 2024-05-01 10:00:00,000 >> {'loss': 2.3457, 'learning_rate': "
        "5.0000e-05, 'epoch': 0.12, 'throughput': 1234.50}\n"
        "{'loss': 2.34567, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 0.12}\n"
        "[INFO|callbacks.py:310] 2024-05-01 10:00:09,000 >> {'loss': 2.2500, 'learning_rate': "
        "5.0000e-05, 'epoch': 0.24, 'throughput': 1234.50}\n"
        "{'loss': 2.25, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.24}\n"
    )
    assert run.signals["step"].to_list() == [1, 2]
    assert run.signals["loss"].to_list() == [2.34567, 2.25]
    assert run.signals["throughput"].to_list() == [1234.5, 1234.5]
    assert run.signals["grad_norm"].to_list() == [1.5, 1.25]


def test_the_length_it_states_tells_its_bar(read_text):
    run = read_text(
        "[INFO|trainer.py:2409] 2024-05-01 10:00:00,000 >>   Total optimization steps = 1,200\n"
        + f"{bar(5, 60)}\n{bar(100, 1200)}\n{bar(7, 60)}\n"
        + "{'loss': 2.5, 'epoch': 0.5}\n"
        + f"{bar(8, 60)}\n{bar(101, 1200)}\n"
    )
    assert run.signals.select("step", "loss").rows() == [(101, 2.5)]


def test_a_line_that_is_cut(read_text):
    run = read_text(f"{{'loss': 2.5, 'epoch': 0.5}}\n{bar(5)}\n{{'loss': 2.25, 'epoch': 0.75, 'gr")
    assert run.signals["loss"].to_list()[0] == 2.5


@pytest.mark.parametrize(
    "text",
    [
        "{'learning_rate': 5e-05, 'batch_size': 8, 'epochs': 3}",
        "{'epoch': 3, 'name': 'x'}",
        '{"loss": 2.5, "epoch": 0.5}',
        "print({'loss': loss, 'epoch': epoch})",
        "{'a': {'b': 1}, 'loss': 2.5}",
    ],
)
def test_what_is_no_record(text):
    parser = TransformersDict()
    assert [*parser.feed(Line(1, text)), *parser.finish()] == []


def test_bars_alone_are_no_run(read_text):
    with pytest.raises(LogError):
        read_text("\r".join(bar(n) for n in range(20)))


@pytest.mark.parametrize(
    "text",
    ["x" * 10**7, "{'epoch': 1, " + "'a': " * 10**6, "{'" * 10**6, "10%|" * 10**6, "━" * 10**7],
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    parser = TransformersDict()
    list(parser.feed(Line(1, text)))
    list(parser.finish())
    assert time.process_time() - begin < 1.0


def test_updates_that_deepspeed_skipped_are_of_the_next_record(read_text):
    overflow = (
        "[2022-07-26 19:15:51,159] [INFO] [stage3.py:1834:_overflow_clean_up] [deepspeed] "
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
    )
    text = (
        "  0%|          | 0/40 [00:00<?, ?it/s]"
        + overflow
        + "  2%|          | 1/40 [00:02<09:07,  1.10s/it]"
        + overflow
        + " 25%|##        | 10/40 [00:09<09:07,  1.10s/it]\n"
        "{'loss': 2.5, 'learning_rate': 4e-05, 'epoch': 0.1}\n"
        " 25%|##        | 10/40 [00:09<09:07,  1.10s/it]\n"
        " 50%|####      | 20/40 [00:19<09:07,  1.10s/it]\n"
        "{'loss': 2.25, 'learning_rate': 4e-05, 'epoch': 0.2}\n"
        " 50%|####      | 20/40 [00:19<09:07,  1.10s/it]\n"
    )
    run = read_text(text)
    assert run.signals["step"].to_list() == [10, 20]
    assert run.signals["update_skipped"].to_list() == [1, None]
    assert [(e.kind, e.step) for e in run.events] == [("update_skipped", 10)] * 2


def test_dictionaries_without_an_epoch(read_text):
    run = read_text(
        "{'loss': 0.5, 'reward': -2.0, 'learning_rate': 5e-05}\n"
        "  0%|          | 1/13000 [00:10<36:34:36, 10.13s/it]"
        "{'loss': nan, 'reward': 5.5, 'learning_rate': 5e-05}\n"
        "  0%|          | 2/13000 [00:28<54:33:11, 15.11s/it]\n"
    )
    assert run.signals["step"].to_list() == [1, 2]
    assert run.signals["reward"].to_list() == [-2.0, 5.5]
    assert run.signals["loss"][0] == 0.5
    assert math.isnan(run.signals["loss"][1])


TABLE = (
    "Step\tTraining Loss\tValidation Loss\tWer\n"
    "100\tNo log\t2.500000\t33.5\n"
    "200\t2.250000\tnan\t31.5\n"
)


def test_the_table_that_a_notebook_shows(read_text):
    run = read_text(
        "some words before\n"
        + TABLE
        + "TrainOutput(global_step=200, training_loss=9.0, metrics={'epoch': 1.0})\n"
        "a table\tof other things\n"
        "300\t7.0\t7.0\t7.0\n"  # no row of the first any more
    )
    assert run.reading["format"] == "transformers"
    assert run.signals["step"].to_list() == [100, 200]
    assert run.signals["loss"].to_list() == [None, 2.25]
    assert run.signals["validation_loss"][0] == 2.5
    assert math.isnan(run.signals["validation_loss"][1])
    assert run.signals["wer"].to_list() == [33.5, 31.5]


def test_the_same_table_as_html_in_a_notebook(read_text):
    rows = [line.split("\t") for line in TABLE.splitlines()]
    body = "".join(
        "<tr>" + "".join(f"<{tag}>{cell}</{tag}>\n" for cell in row) + "</tr>"
        for row, tag in zip(rows, ["th", "td", "td"], strict=True)
    )
    output = {
        "output_type": "display_data",
        "data": {"text/html": ["<div>", f"<table>{body}</table>"], "text/plain": ["<object>"]},
    }
    words = {"output_type": "stream", "name": "stdout", "text": ["loading the weights ...\n"]}
    cells = [{"cell_type": "code", "source": [], "outputs": [words, output]}]
    run = read_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}), "a.ipynb")
    assert run.signals["step"].to_list() == [100, 200]
    assert run.signals["loss"].to_list() == [None, 2.25]

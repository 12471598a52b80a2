"""Levanter: logged and drawn progress."""

import math
import time

import pytest

from surefoot.readers.logs.levanter import Levanter
from surefoot.readers.text import Line

HEAD = "2025-01-01T10:00:00 - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:145 - INFO :: "
LOG = f"""\
{HEAD}Progress on:train -/100it rate:- remaining:? elapsed:00:00 postfix:-
{HEAD}Progress on:train 1.00it/2.50kit rate:34.5s/it remaining:04:01 elapsed:17:46 postfix:loss=15.5
{HEAD}Progress on:train 250it/2.50kit rate:1.2it/s remaining:04:01 elapsed:17:46 postfix:loss=nan
{HEAD}Progress on:eval 5.00it/10.0it rate:1.2it/s remaining:00:01 elapsed:00:06 postfix:loss=99
{HEAD}validation loss: 9.250
{HEAD}wiki validation loss: 9.500
{HEAD}Saving checkpoint at step 250 to /c/step-250
{HEAD}Progress on:train 1.23kit/2.50kit rate:1.2it/s remaining:04:01 elapsed:17:46 postfix:loss=8.25
{HEAD}Progress on:train 1.23kit/2.50kit rate:1.2it/s remaining:04:01 elapsed:17:50 postfix:loss=8.5
Resuming training from step 250
{HEAD}Progress on:train 251it/2.50kit rate:1.2it/s remaining:04:01 elapsed:17:46 postfix:loss=9.0"""


def test_logged_progress(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "levanter"
    assert run.reading["facts"] == {"steps": 2500, "steps_are": "rounded"}
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 1230), (251, 251)]
    one, at_250, resumed = run.signals.rows(named=True)
    assert (one["step"], one["loss"], one["step_time"]) == (1, 15.5, 34.5)
    assert math.isnan(at_250["loss"])
    assert at_250["rate"] == 1.2
    assert at_250["validation_loss"] == 9.25
    assert at_250["wiki_validation_loss"] == 9.5
    assert (resumed["step"], resumed["loss"]) == (251, 9.0)
    assert run.superseded.select("step", "loss").rows() == [(1230, 8.25)]
    assert run.problems == ()
    assert [(e.kind, e.step) for e in run.events] == [("checkpoint", 250), ("resumed", 250)]


def test_a_drawn_bar(read_text):
    run = read_text(
        "train:   4%|▍         | 40/1000 [00:31<10:01, 1.60it/s, loss=8.5]\r"
        "train:   5%|▌         | 50/1000 [00:36<10:01, 1.60it/s, loss=inf]\r"
        "eval:   5%|▌         | 5/100 [00:36<10:01, 1.60it/s, loss=3]\n"
    )
    assert run.signals.select("step", "loss").rows() == [(40, 8.5), (50, math.inf)]


@pytest.mark.parametrize(
    "text",
    [
        "Progress on:{name} {n}/{total} rate:{rate} postfix:{postfix}",
        "Map: 5%|#| 5/100 [00:01<00:02, 3it/s, loss=2]",
        "validation loss: 3.0",
    ],
)
def test_what_is_no_record(text):
    assert list(Levanter().feed(Line(1, text))) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "Progress on:train 1it/2it rate:1 " + "a: " * 10**6, "10%|" * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(Levanter().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_what_is_drawn_last_of_a_step_counts(read_text):
    run = read_text(
        "train:   4%|4| 40/1000 [00:31<10:01, 1.60it/s, loss=8.5]\r"
        "train:   4%|4| 41/1000 [00:32<10:01, 1.60it/s, loss=8.5]\r"
        "train:   4%|4| 41/1000 [00:32<10:01, 1.60it/s, loss=8.25]\r"
    )
    assert run.signals.select("step", "loss").rows() == [(40, 8.5), (41, 8.25)]
    assert run.problems == ()

import io
import math

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from surefoot.records import CheckpointInfo, Event, Finding, Place, Run, ScheduleSpec, TrainSpec
from surefoot.report import summary
from surefoot.report.columns import Curve
from surefoot.report.sparkline import ROWS, sparkline

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold]markup[/bold] \u202e \udcff"


def _print(run, findings=(), width=80, **console):
    stream = io.StringIO()
    Console(file=stream, width=width, **console).print(summary(run, findings))
    return stream.getvalue()


@pytest.fixture
def small_run():
    return Run(
        name="trial",
        spec=TrainSpec(schedule=ScheduleSpec(steps=10)),
        signals=pl.DataFrame(
            {
                "step": [1, 2, 3, 4, 5, 6],
                "loss": [8.0, 6.0, 4.0, 7.0, math.nan, 3.0],
                "validation_loss": [None, None, 4.25, None, None, 3.5],
                "tokens_per_second": [8000.0, 9000.0, 9100.0, 9000.0, 9000.0, 9000.0],
                "consumed_tokens": [4096 * k for k in range(1, 7)],
            }
        ),
        events=(
            Event(kind="started", step=0),
            Event(kind="resumed", step=3),
            Event(kind="halted", step=6, data={"postmortem": "postmortem.md"}),
        ),
        checkpoints=(
            CheckpointInfo(step=0, path="c0", status="confirmed"),
            CheckpointInfo(step=2, path="c2", status="confirmed"),
            CheckpointInfo(step=4, path="c4"),
            CheckpointInfo(step=6, path="c6", status="quarantined", reason="incident"),
        ),
        problems=("signals/journal: the last 12 bytes are torn",),
        path="runs/trial",
    )


def test_the_summary_is_exactly_this(small_run, finding):
    assert _print(small_run, [finding]) == (
        """\
trial  halted (at step 6, see postmortem.md)
runs/trial
  steps       6 of 10, 24,576 tokens, restarted once
  loss        8 first at 1, 3 last at 6, 3 best at 6 (nats); not finite at 1
              step
  validation  3.5 last at 6, 3.5 best at 6 (nats)
  tokens/s    9,000 (median)

  8 █  ▃x
    █▇ █
  3 ██▆█ ▁
    1    6

findings: 1 error
  error SPK003 divergence: run trial, steps 310 to 340 of attempt 1, signal loss
    the loss rose 2.41 nats above its trend and did not come back within 200
    steps
    1. rewind to step 300: surefoot train --name trial --resume
    2. skip the batches

checkpoints (newest 3 of 4)
  step 6  quarantined: incident
  step 4  provisional
  step 2  confirmed

1 problem while reading
  signals/journal: the last 12 bytes are torn
"""
    )


@pytest.mark.parametrize("width", [15, 25, 40, 80, 160])
def test_fits_the_terminal_without_spaces_at_the_ends(make_run, finding, width):
    run = make_run(path="runs/trial", problems=("one word after the other " * 9,))
    text = _print(run, [finding], width)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_stop_on_request_is_no_fault(make_run):
    run = make_run(
        path="runs/trial",
        events=(Event(kind="interrupted", step=500, data={"signal": 2}),),
        checkpoints=(CheckpointInfo(step=500, path="c", status="quarantined", reason="signal"),),
    )
    text = _print(run)
    expected = "trial  interrupted: stopped on request (SIGINT) at step 500; go on with --resume"
    assert text.splitlines()[0] == expected
    assert "  step 500  resumable: saved when the run was stopped on request\n" in text
    assert "quarantined" not in text


def test_missing_rows_are_said_among_the_numbers(make_run):
    problems = (*("signals/x does not belong here; ignored",) * 3, "rows of step 5 are missing")
    text = _print(make_run(problems=problems))
    assert "  gaps        rows of step 5 are missing\n" in text


def test_no_escape_codes_unless_it_is_a_terminal(make_run, finding, monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in _print(make_run(), [finding])
    coloured = _print(make_run(), [finding], force_terminal=True)
    assert "\x1b[1;31merror" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in _print(make_run(), [finding], force_terminal=True)


def test_nothing_of_a_runs_texts_steers_the_terminal(make_run):
    findings = [
        Finding(
            code=HOSTILE,
            name=HOSTILE,
            severity="error",
            place=Place(run=HOSTILE, signal=HOSTILE, layer=HOSTILE),
            message=HOSTILE,
            actions=(HOSTILE,),
            references=(HOSTILE,),
        )
    ]
    run = make_run(
        60,
        2,
        name=HOSTILE,
        path=HOSTILE,
        problems=(HOSTILE,),
        checkpoints=(CheckpointInfo(step=1, path=HOSTILE, status=HOSTILE, reason=HOSTILE),),
        events=(Event(kind="halted", step=3, data={"postmortem": HOSTILE}),),
    )
    text = _print(run, findings, width=200)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "[bold]markup[/bold]" in text  # shown, not obeyed
    assert text.encode("utf-8")


def test_odd_runs_have_a_summary(odd_run, finding):
    text = _print(odd_run, [finding])
    assert text.startswith("trial  finished")
    assert "SPK003" in text


def test_no_findings_are_said_so(make_run):
    assert "no findings" in _print(make_run())


def _curve(values):
    values = np.asarray(values, dtype=float)
    return Curve(name="loss", steps=np.arange(1, len(values) + 1), values=values)


def test_a_spike_of_one_step_in_100000_shows_in_the_picture():
    values = np.full(100_000, 2.0)
    values[70_000] = 9.0
    top = sparkline(_curve(values), 80)[0]
    assert top.count("█") == 1
    # The plot begins behind the scale ("9 "): the spike is at 70 % of its 78 columns.
    assert top.index("█") - 2 == int(0.7 * 78)


def test_a_nan_of_one_step_shows_in_the_picture():
    values = np.full(100_000, 2.0)
    values[70_000] = np.nan
    lines = sparkline(_curve(values), 80)
    assert lines[0].count("x") == 1
    assert lines[2].count("▁") == 78  # its column still shows the finite values


@pytest.mark.parametrize("width", [1, 5, 12, 20, 30, 80])
@pytest.mark.parametrize("first", [1, 1_000_000_000])
@pytest.mark.parametrize("count", [2, 7, 300])
def test_no_line_of_a_picture_is_wider_than_asked(width, first, count):
    values = np.linspace(1.23456e-15, 9.87e-14, count)
    curve = Curve(name="loss", steps=np.arange(first, first + count), values=values)
    lines = sparkline(curve, width)
    assert len(lines) == ROWS + 1
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("values", [[1.0], [3.0] * 10, [np.nan] * 5, [np.inf, 1.0, 2.0]])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_pictures_of_odd_curves(values, ascii_only):
    lines = sparkline(_curve(values), 10, ascii_only=ascii_only)
    assert len(lines) == ROWS + 1
    if ascii_only:
        assert "".join(lines).isascii()


def test_a_terminal_without_block_characters_gets_ascii(make_run):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    Console(file=stream, width=80).print(summary(make_run(), []))
    stream.flush()
    assert b"|" in stream.buffer.getvalue()

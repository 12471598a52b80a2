"""Crash points do nothing unless they are asked for, and then exactly what was asked."""

import os
import timeit

import pytest

from surefoot.errors import UsageError
from surefoot.runs import faults
from surefoot.runs.faults import crash_point


@pytest.fixture(autouse=True)
def killed(monkeypatch):
    """Instead of dying, note the signal."""
    signals = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(number))
    monkeypatch.setattr(os, "write", lambda fd, data: len(data))
    monkeypatch.setattr(faults, "_hits", {})
    return signals


def test_unset_it_does_nothing_and_costs_next_to_nothing(killed, monkeypatch):
    monkeypatch.delenv("SUREFOOT_CRASH_AT", raising=False)
    seconds = min(timeit.repeat(lambda: crash_point("step"), number=1000, repeat=5)) / 1000
    assert killed == []
    assert seconds < 20e-6


@pytest.mark.parametrize("turn", [1, 3])
def test_it_kills_at_the_given_turn_of_the_given_point_only(killed, monkeypatch, turn):
    monkeypatch.setenv("SUREFOOT_CRASH_AT", "step" if turn == 1 else f"step:{turn}")
    deaths = []
    for _ in range(5):
        crash_point("merge")
        crash_point("step")
        deaths.append(len(killed))
    assert deaths == [int(i + 1 >= turn) for i in range(5)]
    assert killed == [9]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("segment.before_renam", "did you mean 'segment.before_rename'"),
        ("step:0", "expected step:N with N of 1 or more"),
        ("step:x", "expected step:N"),
        ("", "no crash point ''"),
    ],
)
def test_a_value_that_can_never_kill_is_refused(killed, monkeypatch, value, message):
    monkeypatch.setenv("SUREFOOT_CRASH_AT", value)
    with pytest.raises(UsageError, match=message):
        crash_point("step")
    assert killed == []

"""A rate that jumps in the middle of a smooth schedule, and those that may."""

import math

import pytest

from surefoot.detect.monitors import Monitors
from surefoot.records import StepRecord


def told(rates: list[float], **more: list[float]) -> list[tuple[int, str]]:
    monitors = Monitors()
    found = []
    for row, rate in enumerate(rates):
        values = {"loss": 3.0 - row / 1e4, "learning_rate": rate}
        values |= {name: column[row] for name, column in more.items()}
        found += [
            (row + 1, f.code) for f in monitors.update(StepRecord(step=row + 1, values=values))
        ]
    return [(step, code) for step, code in found if code.startswith("SCH")]


def cosine(steps: int, peak: float = 1e-3, warm: int = 50) -> list[float]:
    return [
        peak * (i + 1) / warm
        if i < warm
        else peak * (0.55 + 0.45 * math.cos(math.pi * (i - warm) / (steps - warm)))
        for i in range(steps)
    ]


@pytest.mark.parametrize("factor", [3.0, 10.0, 100.0])
def test_a_slip_is_told_at_its_record_and_once(factor: float) -> None:
    rates = cosine(400)
    rates[200:240] = [rate * factor for rate in rates[200:240]]
    assert told(rates) == [(201, "SCH003")]


def test_warm_up_decay_steps_and_a_slow_rewarm_are_schedules() -> None:
    steps = [1e-3] * 100 + [3.16e-4] * 100 + [1e-4] * 100
    rewarm = [1e-4 * 1.02**i for i in range(120)]
    assert told(cosine(400)) == []
    assert told(steps + rewarm) == []
    assert told([1e-3 * min(1.0, (i + 1) / 5) for i in range(200)]) == []


def test_a_warm_restart_goes_back_to_the_peak() -> None:
    assert told(cosine(200) + cosine(200, warm=1)) == []


def test_what_is_announced_is_planned() -> None:
    rates = [1e-4] * 120 + [1e-3] * 100
    assert told(rates) == [(121, "SCH003")]
    assert told(rates, data_phase=[1.0] * 120 + [2.0] * 100) == []
    assert told(rates, batch_size=[64.0] * 120 + [512.0] * 100) == []

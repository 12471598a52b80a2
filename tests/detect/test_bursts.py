"""What lasts a few records is found by sums; one loud record and correlated noise are no burst."""

import json

import numpy as np
import pytest

from surefoot.detect.baseline import Course
from surefoot.detect.bursts import Bursts


def fed(losses: np.ndarray, bursts: Bursts | None = None) -> tuple[Bursts, list[int]]:
    """The records (from 0) at which a burst was told."""
    bursts, course, told = bursts or Bursts(), Course(floor=0.002, prior=0.15), []
    for record, loss in enumerate(losses):
        expected = course.expected() if course.count else float(loss)
        score, _ = bursts.update(float(loss), expected, course.noise())
        if score >= 1.0:
            told.append(record)
        course.learn(float(loss))
    return bursts, told


def noise(steps: int, seed: int = 0, correlation: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(steps)
    for index in range(1, steps):
        values[index] = (
            correlation * values[index - 1] + np.sqrt(1 - correlation**2) * values[index]
        )
    return 2.5 + 0.05 * values


@pytest.mark.parametrize("height", [4.0, 5.0])
def test_a_region_whose_records_are_no_outliers(height: float) -> None:
    losses = noise(900)
    losses[600:612] += height * 0.05
    told = fed(losses)[1]
    assert told
    assert 602 <= told[0] <= 610
    assert all(600 <= record < 625 for record in told)


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_silent_on_noise_also_if_it_is_correlated(correlation: float) -> None:
    # At a rate of one in 10 000 records two are allowed for; a threshold for independent noise
    # would tell dozens.
    assert len(fed(noise(20_000, seed=3, correlation=correlation))[1]) <= 1


def test_one_loud_record_is_no_burst() -> None:
    losses = noise(900)
    losses[600] += 5.0
    assert fed(losses)[1] == []


def test_heavy_tails_are_no_bursts() -> None:
    rng = np.random.default_rng(5)
    assert fed(2.5 + 0.03 * rng.standard_t(3, 20_000))[1] == []


def test_a_fall_is_no_burst() -> None:
    steps = np.arange(3000)
    assert fed(2.0 + 8.0 * (1 + steps / 40.0) ** -0.5 + noise(3000) - 2.5)[1] == []


def test_the_state_goes_on_through_json_at_any_record() -> None:
    losses = noise(400)
    losses[300:309] += 0.3
    whole = fed(losses)[1]
    course, told = Course(floor=0.002, prior=0.15), []
    bursts = Bursts()
    for record, loss in enumerate(losses):
        bursts = Bursts.from_state(json.loads(json.dumps(bursts.state_dict())))
        expected = course.expected() if course.count else float(loss)
        if bursts.update(float(loss), expected, course.noise())[0] >= 1.0:
            told.append(record)
        course.learn(float(loss))
    assert told == whole != []

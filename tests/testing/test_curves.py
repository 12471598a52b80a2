"""Healthy synthetic curves: the same numbers as ever, of the shapes that they claim."""

import math

import numpy as np
import pytest

from surefoot.testing.curves import KINDS, VOCABULARY, Healthy, curve, records, student


def rng(seed=0):
    return np.random.default_rng(seed)


# The mean of loss and gradient norm over the first 400 records of seed 0. They hold published
# false-alarm rates to the curves on which they were measured.
PINNED = {
    "white noise 0.03 nat": (5.3861832, 1.9675365),
    "heavy-tailed gradient norm, t3": (6.0589806, 2.0603327),
    "warm-up, stable, decay": (5.3458097, 1.9675365),
    "quantised to 2-3 digits": (5.2793100, 1.9588400),
    "missing values": (5.3866703, 1.9226946),
}


@pytest.mark.parametrize("kind", sorted(PINNED))
def test_a_seed_gives_the_numbers_that_it_always_gave(kind):
    run = KINDS[kind][0](400, rng())
    found = (float(np.nanmean(run.loss)), float(np.nanmean(run.grad)))
    assert found == pytest.approx(PINNED[kind], abs=5e-6)


def test_a_curve_falls_from_a_uniform_guess_to_a_floor():
    loss = curve(20_000, rng())
    assert loss[0] == pytest.approx(math.log(VOCABULARY), abs=1.0)
    assert np.all(np.diff(loss) < 0)
    assert 1.8 <= loss[-1] <= 3.5


@pytest.mark.parametrize("degrees", [3, 4, 5])
def test_heavy_tails_have_the_quartiles_of_a_normal(degrees):
    values = student(rng(), degrees, 200_000)
    assert np.quantile(values, 0.75) == pytest.approx(0.6745, abs=0.01)
    assert np.mean(np.abs(values) > 5) > 1e-3  # of a normal: 6e-7


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_makes_runs_of_the_length_asked_for(kind):
    make, steps, runs = KINDS[kind]
    run = make(min(steps, 600), rng())
    assert len(run.loss) == len(run.grad) == min(steps, 600)
    assert runs >= 1
    assert np.nanmin(run.loss) > 0


def test_there_are_some_three_million_records_in_all():
    assert sum(steps * runs for _, steps, runs in KINDS.values()) == 2_970_000


def test_a_missing_value_is_absent_from_its_record():
    run = Healthy(np.array([3.0, np.nan]), np.array([np.nan, 1.0]), np.array([0.1, 0.2]), every=10)
    first, second = records(run)
    assert (first.step, dict(first.values)) == (10, {"loss": 3.0, "learning_rate": 0.1})
    assert (second.step, dict(second.values)) == (20, {"grad_norm": 1.0, "learning_rate": 0.2})

"""Each precursor warns of its own symptom, dates it, and keeps silent on a healthy course."""

import math

import numpy as np
import pytest

from surefoot.detect.precursors import ALL, DEFAULT
from surefoot.detect.precursors.growth import Growth
from surefoot.detect.scores import Outlier, Scores

CALM = Scores()


def warned(name, columns, scores=CALM):
    """Steps at which the precursor's score is 1 or more, and its last sign."""
    precursor, steps, last = ALL[name](), [], None
    for row in range(len(next(iter(columns.values())))):
        values = {key: column[row] for key, column in columns.items() if column[row] is not None}
        sign = precursor.update(row + 1, values, scores)
        if sign is not None and sign.score >= 1.0:
            steps.append(row + 1)
            last = sign
    return steps, last


def floats(column):
    return [float(value) for value in column]


def noisy(course, rng, spread=0.05):
    return floats(course * np.exp(spread * rng.standard_normal(len(course))))


def test_the_default_set_is_of_those_that_were_tried():
    assert set(DEFAULT) <= set(ALL)
    assert all(ALL[name]().name == name for name in ALL)


@pytest.mark.parametrize("doubling", [30, 60, 90])
def test_attention_logits_that_double_are_told_long_before_a_thousand(rng, doubling):
    after = np.maximum(np.arange(1200) - 400, 0)
    logits = noisy(5 * 2 ** (after / doubling), rng, 0.15)
    steps, sign = warned("attention-growth", {"attention_logit_max": logits[:1000]})
    assert 400 < steps[0] < 400 + doubling * math.log2(200 / 5) / 1.3
    assert 400 <= sign.since <= 420 + 1.5 * doubling
    assert sign.numbers["growth_per_100_steps"] == pytest.approx(2 ** (100 / doubling), rel=0.25)


@pytest.mark.parametrize("per_100", [1.0, 1.15, 1.3])
def test_attention_logits_that_creep_from_7_are_healthy(rng, per_100):
    logits = noisy(5 * per_100 ** (np.arange(600) / 100), rng, 0.2)
    assert warned("attention-growth", {"attention_logit_max": logits})[0] == []


def test_large_logits_that_do_not_grow_are_healthy(rng):
    logits = noisy(np.full(1000, 150.0), rng, 0.2)
    assert warned("attention-growth", {"attention_logit_max": logits})[0] == []


def test_attention_logits_sampled_each_20_steps(rng):
    course = 5 * 2 ** (np.maximum(np.arange(2400) - 1600, 0) / 60)
    logits = [value if row % 20 == 0 else None for row, value in enumerate(noisy(course, rng))]
    steps, sign = warned("attention-growth", {"attention_logit_max": logits})
    assert 1600 < steps[0] < 1600 + 60 * math.log2(1000 / 5) - 50
    assert sign.numbers["growth_per_100_steps"] == pytest.approx(2 ** (100 / 60), rel=0.4)


def test_log_z_that_runs_away(rng):
    course = 7.2 + 0.05 * rng.standard_normal(700) + 0.03 * np.maximum(np.arange(700) - 400, 0)
    steps, sign = warned("log-z-drift", {"log_z": floats(course)})
    assert 400 < steps[0] < 480
    assert 400 <= sign.since <= 430
    assert sign.signal == "log_z"


def test_log_z_towards_minus_infinity_is_told_as_well(rng):
    course = -7.2 + 0.05 * rng.standard_normal(700) - 0.03 * np.maximum(np.arange(700) - 400, 0)
    assert 400 < warned("log-z-drift", {"log_z": floats(course)})[0][0] < 480


def test_log_z_that_creeps_is_healthy(rng):
    course = 6.3 + 0.05 * rng.standard_normal(700) + 1.2 * (1 - np.exp(-np.arange(700) / 300))
    assert warned("log-z-drift", {"log_z": floats(course)})[0] == []


def test_the_largest_log_z_stands_in(rng):
    course = 10 * np.exp(0.005 * np.maximum(np.arange(700) - 400, 0))
    steps, sign = warned("log-z-drift", {"log_z_abs_max": noisy(course, rng)})
    assert 400 < steps[0] < 520
    assert sign.signal == "log_z_abs_max"


@pytest.mark.parametrize(
    ("value", "score", "sure", "told"),
    [
        (1.8, 1.6, True, True),
        (4.0, 1.6, False, False),
        (1.4, 1.6, True, False),
        (9.0, -2.0, True, False),
    ],
)
def test_a_second_moment_must_lag_for_two_records(value, score, sure, told):
    name = "adam_rms@embedding"
    scores = Scores(outliers=(Outlier(name, score, value, 4),), opened=(name,) * sure)
    steps, sign = warned("second-moment", {"adam_rms": [1.1]}, scores)
    assert bool(steps) is told
    if told:
        assert sign.signal == name
        assert sign.since == 4
        assert sign.score == pytest.approx(min(value / 1.5, score))


def test_an_outlier_of_another_signal_is_no_second_moment():
    scores = Scores(outliers=(Outlier("grad_norm", 4.0, 9.0, 4),), opened=("grad_norm",))
    assert warned("second-moment", {"adam_rms": [3.0]}, scores)[0] == []


def test_updates_that_grow_while_the_rate_falls(rng):
    steps = np.arange(900)
    rates = 1e-3 * np.exp(-steps / 500)
    growth = np.exp(0.006 * np.maximum(steps - 500, 0))
    columns = {"learning_rate": floats(rates), "update_rms": noisy(0.2 * rates * growth, rng)}
    told, sign = warned("update-growth", columns)
    assert 500 < told[0] < 620
    assert sign.numbers["update_rms"] > 0.25
    columns["update_rms"] = noisy(0.2 * rates, rng)
    assert warned("update-growth", columns)[0] == []


def test_a_gradient_norm_that_climbs(rng):
    course = 0.3 * np.exp(0.01 * np.maximum(np.arange(900) - 500, 0))
    told, sign = warned("gradient-growth", {"grad_norm": noisy(course, rng, 0.15)})
    assert 500 < told[0] < 640
    assert 500 <= sign.since <= 600
    falling = 0.3 + 3 * np.exp(-np.arange(900) / 100)
    assert warned("gradient-growth", {"grad_norm": noisy(falling, rng, 0.15)})[0] == []


def test_what_the_bank_confirms_is_told_with_its_beginning():
    scores = Scores(
        outliers=(Outlier("param_norm", 5.0, 1.0, 8), Outlier("grad_norm", 1.5, 3.0, 7)),
        opened=("grad_norm",),
    )
    _, sign = warned("sudden", {"loss": [2.0]}, scores)
    assert (sign.signal, sign.since, sign.score) == ("grad_norm", 7, 1.5)
    assert warned("sudden", {"loss": [2.0]})[0] == []


def test_a_loss_scale_in_decline():
    healthy = [65536.0 / 2 ** (row // 97 % 2) for row in range(600)]
    assert warned("loss-scale-decline", {"loss_scale": healthy})[0] == []
    falling = [65536.0] * 500 + [65536.0 / 2 ** (row // 5) for row in range(100)]
    told, sign = warned("loss-scale-decline", {"loss_scale": falling})
    assert 515 <= told[0] <= 530
    assert sign.since in range(504, 508)


def test_gradients_that_align_and_gradients_that_flip(rng):
    noise = 0.04 * rng.standard_normal(700)
    ramp = np.clip((np.arange(700) - 400) / 100, 0, 1)
    assert warned("gradient-correlation", {"grad_cosine": floats(noise)})[0] == []
    told, _ = warned("gradient-correlation", {"grad_cosine": floats(noise + 0.6 * ramp)})
    assert 430 < told[0] < 520
    told, _ = warned("gradient-correlation", {"grad_cosine": floats(noise - 0.6 * ramp)})
    assert 430 < told[0] < 500


def test_slowing_down_and_flips_of_the_loss(rng):
    noise = 0.02 * rng.standard_normal(1500)
    assert warned("critical-slowing", {"loss": floats(3 + noise)})[0] == []
    slow, last = noise.copy(), 0.0
    for row in range(900, 1500):
        last = 0.95 * last + 2 * noise[row]
        slow[row] = last
    told, _ = warned("critical-slowing", {"loss": floats(3 + slow)})
    assert told
    assert told[0] > 900
    flip = noise.copy()
    flip[900:] += 0.1 * (-1.0) ** np.arange(600)
    told, _ = warned("critical-slowing", {"loss": floats(3 + flip)})
    assert told
    assert told[0] > 900


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf, 0.0, -5.0, "x", 10**400])
def test_no_value_stops_or_poisons_a_precursor(name, odd, rng):
    signals = ALL[name]().signals
    healthy = {signal: noisy(np.full(400, 2.0), rng) for signal in signals}
    healthy["learning_rate"] = [1e-3] * 400
    clean = warned(name, healthy)[0]
    for signal in signals:
        healthy[signal][100] = odd
    assert len(warned(name, healthy)[0]) <= len(clean) + 60


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_constant_series_is_no_symptom(name):
    columns = {signal: [2.0] * 500 for signal in ALL[name]().signals}
    columns["learning_rate"] = [1e-3] * 500
    assert warned(name, columns)[0] == []


def test_growth_measures_a_ramp():
    growth = Growth(prior=0.1, floor=0.01)
    for step in range(1, 1001):
        growth.update(step * 10, 0.002 * step * 10)
    assert growth.rate() == pytest.approx(0.002, rel=0.15)
    assert growth.gap == pytest.approx(10)

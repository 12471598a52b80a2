"""From outcomes to figures, and the intervals that they carry."""

import math

import numpy as np
import pytest

from surefoot.testing.intervals import (
    Rate,
    binomial_interval,
    median_interval,
    poisson_interval,
    quantile_interval,
)
from surefoot.testing.match import Alarm, Outcome
from surefoot.testing.score import Scores, early_warning, f1, f1_by_group
from surefoot.testing.truth import Truth


def outcome(found=True, group="rate", cause="rate", shown=120, **values):
    healthy = found is None
    harm = values.pop("harm", 0.0)
    truth = Truth(
        case="c", harm_nats=harm, set="dev", kind=group, group=group, cause=cause, healthy=healthy,
        injection_step=100, manifest_step=110, loss_manifest_step=shown, steps=500,
    )  # fmt: skip
    return Outcome(truth=truth, found=found, **values)


# ---------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 5, 0.0, 0.521824),
        (5, 5, 0.478176, 1.0),
        (3, 10, 0.0667395, 0.652453),
        (97, 100, 0.914824, 0.993770),
        (900, 1000, 0.879712, 0.917895),
    ],
)
def test_clopper_pearson_as_tabulated(count, total, low, high):
    # From the quantiles of the beta distribution.
    assert binomial_interval(count, total) == pytest.approx((low, high), abs=2e-6)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 3.688879), (1, 0.0253178, 5.571643), (24, 15.377253, 35.710098),
     (5000, 4862.3592, 5140.5489)],
)  # fmt: skip
def test_poisson_as_tabulated(count, low, high):
    assert poisson_interval(count) == pytest.approx((low, high), rel=1e-6)


def test_the_intervals_cover_at_least_as_often_as_they_say():
    rng = np.random.default_rng(0)
    draws = rng.binomial(40, 0.9, 2000)
    bounds = {count: binomial_interval(count, 40) for count in set(draws.tolist())}
    covered = sum(bounds[count][0] <= 0.9 <= bounds[count][1] for count in draws.tolist())
    assert covered / 2000 >= 0.95


def test_nothing_to_judge_by_is_nan_and_not_zero():
    assert math.isnan(Rate(0, 0).value)
    assert all(math.isnan(bound) for bound in Rate(0, 0).interval)
    assert math.isnan(median_interval([]).value)
    assert median_interval([]).total == 0


@pytest.mark.parametrize("count", [-1, 6])
def test_a_count_out_of_range_is_refused(count):
    with pytest.raises(ValueError, match=f"expected a count of 0 to 5, got {count}"):
        binomial_interval(count, 5)
    if count < 0:
        with pytest.raises(ValueError, match="expected a count of 0 or more, got -1"):
            poisson_interval(count)


def test_medians_and_quantiles_are_values_of_the_sample():
    found = median_interval([5.0, 1.0, 3.0, 9.0, 7.0])
    assert (found.value, found.total) == (5.0, 5)
    assert found.low <= 5.0 <= found.high
    assert {found.low, found.high} <= {1.0, 3.0, 5.0, 7.0, 9.0}
    assert quantile_interval([float(x) for x in range(1, 11)], 0.9).value == 9.0
    assert median_interval([1.0, 2.0, math.inf]).high == math.inf


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).exponential(size=30).tolist()
    assert median_interval(values) == median_interval(values)


# ------------------------------------------------------------------------------------------ figures


def test_recall_precision_and_false_alarms():
    scores = Scores.of(
        [
            outcome(True),
            outcome(True),
            outcome(False),
            outcome(None, false_alarms=(Alarm(step=7),), healthy_steps=5000),
            outcome(None, healthy_steps=5000),
        ]
    )
    assert (scores.recall.count, scores.recall.total) == (2, 3)
    assert (scores.precision.count, scores.precision.total) == (2, 3)
    assert scores.false_per_10k == 1.0
    assert scores.false_interval == pytest.approx((0.0253178, 5.571643), rel=1e-5)
    assert scores.f1 == pytest.approx(2 / 3)


def test_causes_count_of_faults_found_and_ends_of_all():
    scores = Scores.of(
        [
            outcome(True, cause_rank=1, end_right=True),
            outcome(True, cause_rank=3, end_right=False),
            outcome(True, cause_rank=0, end_right=None),
            outcome(True, cause_rank=None),
            outcome(False, end_right=False),
        ]
    )
    assert (scores.cause_first.count, scores.cause_first.total) == (1, 3)
    assert (scores.cause_third.count, scores.cause_third.total) == (2, 3)
    assert (scores.end_right.count, scores.end_right.total) == (1, 3)


def test_medians_are_over_the_faults_found_and_90th_percentile_over_points():
    found = [outcome(True, delay=d, lead=9 - d, onset_error=d) for d in range(1, 11)]
    scores = Scores.of([*found, outcome(False), outcome(True, delay=None)])
    assert (scores.delay.value, scores.delay.total) == (5.0, 10)
    assert scores.lead.value == 3.0
    assert (scores.onset.value, scores.onset_90.value) == (5.0, 9.0)


def test_a_fault_is_costly_if_the_loss_shows_it_or_it_cost_something_in_the_end():
    slight = {"shown": None, "harm": 0.01}
    scores = Scores.of(
        [
            outcome(True),
            outcome(False, **slight),
            outcome(False, shown=None, harm=0.3),
            outcome(False, shown=None, harm=math.nan),
        ]
    )
    assert (scores.costly.count, scores.costly.total) == (1, 3)
    assert scores.recall.total == 4


def test_what_chance_finds_follows_from_the_false_alarms_and_the_windows():
    # One false alarm on 100 healthy steps, and windows of 211 steps: from 100 to 110 + 200.
    loud = Scores.of(
        [outcome(True), outcome(None, false_alarms=(Alarm(step=7),), healthy_steps=100)]
    )
    assert loud.chance == pytest.approx(1 - math.exp(-2.11))
    assert Scores.of([outcome(True), outcome(None, healthy_steps=100)]).chance == 0.0
    assert math.isnan(Scores.of([outcome(True)]).chance)


def test_no_cases_at_all_give_nan():
    scores = Scores.of([])
    assert math.isnan(scores.recall.value)
    assert math.isnan(scores.false_per_10k)
    assert math.isnan(scores.false_interval[0])
    assert math.isnan(scores.f1)


def test_a_group_bears_its_share_of_the_false_alarms():
    cases = [outcome(True, "rate")] * 3 + [outcome(True, "data")]
    cases += [outcome(None, false_alarms=(Alarm(step=7),) * 4, healthy_steps=9)]
    table = f1_by_group(cases)
    assert table == {"data": pytest.approx(f1(1, 1, 1.0)), "rate": pytest.approx(f1(3, 3, 3.0))}
    assert f1(3, 3, 3.0) == pytest.approx(2 / 3)
    assert f1(0, 3, 0) == 0.0


def test_early_warning_counts_alarms_before_the_loss_shows_the_fault():
    grown = {"group": "attention", "cause": "attention-growth"}
    table = early_warning(
        [
            outcome(True, lead=80, alarm=Alarm(step=40), **grown),
            outcome(True, lead=0, **grown),  # with the loss, not before it
            outcome(True, lead=-5, **grown),
            outcome(False, lead=None, **grown),
            outcome(True, lead=None, shown=None, **grown),  # the loss never shows it
            outcome(True, lead=3, group="data", cause="data-batch"),
        ]
    )
    found = table["attention or logit growth"]
    assert (found.warned.count, found.warned.total) == (1, 4)
    assert found.lead.value == 80
    assert table["second-moment lag"].warned.total == 0

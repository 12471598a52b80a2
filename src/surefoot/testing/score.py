"""From outcomes to the figures of a table: recall, precision, false alarms, delay, cause ...

::

    from surefoot.testing.match import from_findings, judge
    from surefoot.testing.score import Scores

    twins = {case.truth.case for case in cases}
    outcomes = [judge(case.truth, from_findings(told[case.truth.case]), twins) for case in cases]
    scores = Scores.of(outcomes)
    scores.recall.value, scores.recall.interval, scores.false_per_10k

Rates carry exact 95 % intervals, medians bootstrap ones. Cases of one run are not independent (they
share data and weights), so an interval says how far the figure would move on other cases of this
kind, not more.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surefoot.testing.intervals import (
    Median,
    Rate,
    median_interval,
    poisson_interval,
    quantile_interval,
)
from surefoot.testing.match import Outcome, window

EARLY_CLASSES = {
    "attention or logit growth": ("attention-growth", "output-logits"),
    "second-moment lag": ("second-moment",),
}
"""Classes of faults for which early warning is claimed, by the causes that they hold."""


COSTLY_NATS = 0.02
"""Mean harm over the last 50 steps from which a fault is costly, though no loss stood out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The figures of one detector on a set of cases.

    Attributes:
        recall: faults found of faults.
        costly: the same of the faults that the loss shows, or that cost 0.02 nat at the end.
        false_alarms: alarms on healthy steps.
        healthy_steps: how many of those there were.
        delay: steps from the first manifest step to the alarm, over the faults found.
        lead: steps from the alarm to the step at which the loss shows it, over the faults found
            that the loss ever shows.
        onset: steps between onset and first manifest step, over faults that are a point in time.
        onset_90: its 90th percentile.
        end_right: rightly told whether the loss came back, of all faults of which it is known.
        cause_first: right at rank 1, of the faults found.
        cause_third: right at rank 1, 2 or 3, of the faults found.
        first_onset: as ``onset``, of what was told with the alarm.
        first_cause: as ``cause_first``, of what was told with the alarm.
        chance: recall of a detector that alarms as often, at random: its false-alarm rate over the
            windows in which an alarm counts. A recall near it says nothing.
    """

    recall: Rate
    costly: Rate
    false_alarms: int
    healthy_steps: int
    delay: Median
    lead: Median
    onset: Median
    onset_90: Median
    end_right: Rate
    cause_first: Rate
    cause_third: Rate
    first_onset: Median
    first_cause: Rate
    chance: float

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Scores":
        """The figures of these outcomes."""
        outcomes = list(outcomes)
        faulty = [outcome for outcome in outcomes if outcome.found is not None]
        found = [outcome for outcome in faulty if outcome.found]
        ranks = [outcome.cause_rank for outcome in found if outcome.cause_rank is not None]
        ends = [outcome.end_right for outcome in faulty if outcome.end_right is not None]
        onsets = _given(outcome.onset_error for outcome in found)
        false = sum(len(outcome.false_alarms) for outcome in outcomes)
        healthy = sum(outcome.healthy_steps for outcome in outcomes)
        return cls(
            recall=Rate(len(found), len(faulty)),
            costly=Rate(sum(costs(one) for one in found), sum(costs(one) for one in faulty)),
            false_alarms=false,
            healthy_steps=healthy,
            delay=median_interval(_given(outcome.delay for outcome in found)),
            lead=median_interval(_given(outcome.lead for outcome in found)),
            onset=median_interval(onsets),
            onset_90=quantile_interval(onsets, 0.9),
            end_right=Rate(sum(ends), len(ends)),
            cause_first=Rate(sum(rank == 1 for rank in ranks), len(ranks)),
            cause_third=Rate(sum(1 <= rank <= 3 for rank in ranks), len(ranks)),
            first_onset=median_interval(_given(outcome.first_onset_error for outcome in found)),
            first_cause=Rate(
                sum(outcome.first_cause_rank == 1 for outcome in found),
                sum(outcome.first_cause_rank is not None for outcome in found),
            ),
            chance=_chance(faulty, false / healthy if healthy else math.nan),
        )

    @property
    def precision(self) -> Rate:
        """Faults found of all alarms that count: each fault found once, and the false ones."""
        return Rate(self.recall.count, self.recall.count + self.false_alarms)

    @property
    def false_per_10k(self) -> float:
        """False alarms per 10 000 healthy steps; NaN if there were none."""
        return 1e4 * self.false_alarms / self.healthy_steps if self.healthy_steps else math.nan

    @property
    def false_interval(self) -> tuple[float, float]:
        """Exact 95 % Poisson interval of :attr:`false_per_10k`."""
        if not self.healthy_steps:
            return math.nan, math.nan
        low, high = poisson_interval(self.false_alarms)
        return 1e4 * low / self.healthy_steps, 1e4 * high / self.healthy_steps

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision."""
        return f1(self.recall.count, self.recall.total, self.false_alarms)


def f1(found: int, faults: int, false: float) -> float:
    """Harmonic mean of recall and precision; 0 if nothing was found, NaN without faults."""
    if not faults:
        return math.nan
    return 2 * found / (faults + found + false)


def f1_by_group(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """F1 of each group of faulty kinds.

    A false alarm belongs to no group; each group bears the share of them that it has of the faults.
    """
    faulty = [outcome for outcome in outcomes if outcome.found is not None]
    false = sum(len(outcome.false_alarms) for outcome in outcomes)
    table = {}
    for group in sorted({outcome.truth.group for outcome in faulty}):
        own = [outcome for outcome in faulty if outcome.truth.group == group]
        share = false * len(own) / len(faulty)
        table[group] = f1(sum(bool(outcome.found) for outcome in own), len(own), share)
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """Early warning of one class of faults.

    Attributes:
        warned: faults with an alarm before the loss left its band, of those that the loss shows.
        lead: steps by which, over those.
    """

    warned: Rate
    lead: Median


def early_warning(outcomes: Iterable[Outcome]) -> dict[str, Early]:
    """Early warning by class; any alarm before the loss shows the fault counts, SPK005 or not."""
    outcomes = list(outcomes)
    table = {}
    for name, causes in EARLY_CLASSES.items():
        shown = [
            outcome
            for outcome in outcomes
            if outcome.found is not None
            and outcome.truth.cause in causes
            and outcome.truth.loss_manifest_step is not None
        ]
        leads = [lead for outcome in shown if (lead := outcome.lead) is not None and lead > 0]
        table[name] = Early(warned=Rate(len(leads), len(shown)), lead=median_interval(leads))
    return table


def costs(outcome: Outcome) -> bool:
    """Whether the fault of this case is one that anybody would pay for."""
    truth = outcome.truth
    return truth.loss_manifest_step is not None or not truth.harm_nats < COSTLY_NATS


def _given(values: Iterable[int | None]) -> list[float]:
    return [float(value) for value in values if value is not None]


def _chance(faulty: Sequence[Outcome], rate: float) -> float:
    """Share of the faults in whose window an alarm falls at random, at ``rate`` alarms a step."""
    if not faulty:
        return math.nan
    total = 0.0
    for outcome in faulty:
        begin, end = window(outcome.truth)
        total += -math.expm1(-rate * max(0, min(end, outcome.truth.steps) - begin + 1))
    return total / len(faulty)

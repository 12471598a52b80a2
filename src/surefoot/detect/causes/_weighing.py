"""A balance: clauses for and against one hypothesis, each with its points.

Points are natural logarithms of odds, as in a naive Bayes sum: +1 makes the hypothesis 2.7 times as
likely beside the others, +2.3 ten times. They are rounded by hand and small on purpose: no clause
decides alone, but for the impossible steps, which do.
"""

import math

from surefoot.detect.evidence import Hypothesis

WEAK = 0.7
"""Twice as likely: seen often with this cause, and not seldom with others."""
FAIR = 1.5
"""Four to five times as likely."""
STRONG = 3.0
"""Twenty times as likely: seldom seen with another cause."""
DECISIVE = 6.0
"""Four hundred times: what no other cause can do."""


class Balance:
    """Collects the clauses of one hypothesis.

    Args:
        cause: its name, one of :data:`surefoot.detect.evidence.CAUSES`.
        experiment: the rerun that would decide it.
        prior: points before anything is known of the incident.
    """

    def __init__(self, cause: str, experiment: str, prior: float = 0.0) -> None:
        self.cause = cause
        self.experiment = experiment
        self.points = prior
        self._supports: list[tuple[float, str]] = []
        self._contradicts: list[tuple[float, str]] = []

    def add(self, points: float, clause: str) -> None:
        """Weigh a fact: ``points`` above 0 speak for the hypothesis, below 0 against it."""
        self.points += points
        if points > 0.0:
            self._supports.append((points, clause))
        elif points < 0.0:
            self._contradicts.append((-points, clause))

    def note(self, clause: str) -> None:
        """Put a clause beside the others that changes no weight."""
        self._supports.append((0.0, clause))

    def result(self) -> Hypothesis:
        """The hypothesis with its weight, the strongest clauses first."""
        return Hypothesis(
            cause=self.cause,
            weight=math.exp(max(-40.0, min(40.0, self.points))),
            supports=_ordered(self._supports),
            contradicts=_ordered(self._contradicts),
            experiment=self.experiment,
        )


def _ordered(clauses: list[tuple[float, str]]) -> tuple[str, ...]:
    return tuple(text for _, text in sorted(clauses, key=lambda item: -item[0]))


def factor(value: float) -> str:
    """A ratio in words: ``x8.3``, ``x0.12``; ``x1e+05`` where it is absurd."""
    return f"x{value:.2g}" if value < 99.5 or value >= 1e5 else f"x{value:.0f}"

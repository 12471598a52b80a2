"""Critical slowing down of the loss (Scheffer et al. 2009; Dakos et al. 2012).

A system near a bifurcation returns ever more slowly from disturbances: the lag-1 autocorrelation
of its residuals tends to 1 and their variance grows; before a flip (an optimizer at the edge of
stability, Cohen et al. 2022, 2207.14484) the autocorrelation tends to -1 instead. With residuals
from a short mean, a and v their autocorrelation and variance over 60 records, and what both used
to be over 400:

    score = max(min((a - usual a) / 0.5, log(v / usual v) / log 3),  (usual a - a) / 0.5)

It was never validated for losses of language models: benchmarks/precursors.py says what it is
worth.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import finite
from surefoot.detect.scores import Scores

LEVEL_SPAN, SPAN, USUAL_SPAN = 16.0, 60.0, 400.0
RISE, LOUDER = 0.5, math.log(3.0)
KNOWN_FROM = 200
_NAMES = ("count", "level", "last", "variance", "product", "usual", "usual_log", "since")


class CriticalSlowing:
    """Watches ``loss``."""

    name = "critical-slowing"
    signals = ("loss",)

    def __init__(self) -> None:
        self.count = 0
        self.level = self.last = self.variance = self.product = 0.0
        self.usual = self.usual_log = 0.0
        self.since: int | None = None

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        loss = finite(values.get("loss"))
        if loss is None:
            return None
        self.count += 1
        count = self.count
        if count == 1:
            self.level = loss
            return None
        residual = loss - self.level
        bound = 6.0 * math.sqrt(self.variance) if count > 30 else 10.0
        residual = min(max(residual, -bound), bound)
        self.level += residual / min(count, LEVEL_SPAN)
        span = min(count, SPAN)
        self.variance += (residual * residual - self.variance) / span
        self.product += (residual * self.last - self.product) / span
        self.last = residual
        if self.variance <= 0.0:
            return None
        memory, log = self.product / self.variance, 0.5 * math.log(self.variance)
        rise, louder = memory - self.usual, 2.0 * (log - self.usual_log)
        usual_span = min(max(count - SPAN, 1.0), USUAL_SPAN)
        self.usual += rise / usual_span
        self.usual_log += (log - self.usual_log) / usual_span
        score = max(min(rise / RISE, louder / LOUDER), -rise / RISE)
        if score < 0.5 or count < KNOWN_FROM:
            self.since = None
            return None
        if self.since is None:
            self.since = step
        numbers = {
            "autocorrelation": memory,
            "usual": self.usual,
            "variance_ratio": math.exp(louder),
        }
        return Sign(score=score, since=self.since, signal="loss", numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return [getattr(self, name) for name in _NAMES]

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        for name, value in zip(_NAMES, state, strict=True):
            setattr(self, name, value)

"""Updates that grow though the rate does not (Molybog et al. 2023, 2304.09871).

Adam's update has an RMS of about sqrt((1 - beta1) / (1 + beta1)) = 0.23 of the learning rate while
gradients are uncorrelated in time, and approaches the rate itself as they align: the state from
which runs diverge. Scored is the growth of x = log(update_rms / learning_rate):

    score = min(drift / 6,  growth over 100 steps / log 1.5)
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.bank import Scores
from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth, positive_log

DRIFT = 6.0
GROWTH = math.log(1.5)
KNOWN_FROM = 32


class UpdateGrowth:
    """Watches ``update_rms``, or ``update_ratio``, over the learning rate."""

    name = "update-growth"
    signals = ("update_rms", "update_ratio")

    def __init__(self) -> None:
        self._growth = Growth(prior=0.2, floor=0.02)

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        name = self.signals[0] if self.signals[0] in values else self.signals[1]
        value, rate = positive_log(values.get(name)), positive_log(values.get("learning_rate"))
        if value is None or rate is None:
            return None
        growth = self._growth
        growth.update(step, value - rate)
        if growth.since is None or growth.count < KNOWN_FROM:
            return None
        change = 100.0 * growth.rate()
        score = min(growth.drift() / DRIFT, change / GROWTH)
        if score < 0.5:
            return None
        numbers = {
            f"{name}_over_rate": math.exp(growth.fast),
            "growth_per_100_steps": math.exp(min(change, 50.0)),
        }
        return Sign(score=score, since=growth.since, signal=name, numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._growth.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._growth.load_state_dict(state)

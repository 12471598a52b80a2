"""A gradient norm that climbs (bigscience tr11 chronicles; OLMo 2, 2501.00656).

Before the spike of BLOOM-176B it rose by factors of 3.9, 9.9, 66 and 600 over four steps, while the
loss still fell; before slow divergence it climbs over hundreds. The first is a matter of the bank
of signals (:mod:`surefoot.detect.precursors.sudden`). Here the second:

    x = log(gradient norm),   score = min(drift / 6,  growth over 100 steps / log 2)

In a healthy run it falls or creeps up by a few per cent in 100 steps.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.bank import Scores
from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth, positive_log

DRIFT = 6.0
GROWTH = math.log(2.0)
KNOWN_FROM = 64


class GradGrowth:
    """Watches ``grad_norm``."""

    name = "gradient-growth"
    signals = ("grad_norm",)

    def __init__(self) -> None:
        self._growth = Growth(prior=0.3, floor=0.03)

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        value = positive_log(values.get("grad_norm"))
        if value is None:
            return None
        growth = self._growth
        growth.update(step, value)
        if growth.since is None or growth.count < KNOWN_FROM:
            return None
        change = 100.0 * growth.rate()
        score = min(growth.drift() / DRIFT, change / GROWTH)
        if score < 0.5:
            return None
        numbers = {
            "grad_norm": math.exp(growth.fast),
            "growth_per_100_steps": math.exp(min(change, 50.0)),
        }
        return Sign(score=score, since=growth.since, signal="grad_norm", numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._growth.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._growth.load_state_dict(state)

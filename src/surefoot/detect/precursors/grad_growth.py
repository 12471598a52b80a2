"""A gradient norm that climbs (bigscience tr11 chronicles; OLMo 2, 2501.00656).

Before the spike of BLOOM-176B it rose by factors of 3.9, 9.9, 66 and 600 over four steps, while the
loss still fell; before slow divergence it climbs over hundreds. The first is a matter of the bank
of signals (:mod:`surefoot.detect.precursors.sudden`). Here the second:

    x = log(gradient norm),   score = min(drift / 3,  growth over 100 steps / log 2)

In a healthy run it falls or creeps up by a few per cent in 100 steps.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.growing import Growing
from surefoot.detect.precursors.growth import Growth, positive_log

DRIFT = 3.0
GROWTH = math.log(2.0)


class GradGrowth(Growing):
    """Watches ``grad_norm``."""

    name = "gradient-growth"
    signals = ("grad_norm",)
    prior = 0.3
    floor = 0.03
    known_from = 64

    def scaled(self, value: object, values: Mapping[str, Any]) -> float | None:
        """Its logarithm."""
        return positive_log(value)

    def score(self, growth: Growth) -> float:
        """How fast it grows, and how surely."""
        return min(growth.drift() / DRIFT, 100.0 * growth.rate() / GROWTH)

"""Updates that grow though the rate does not (Molybog et al. 2023, 2304.09871).

Adam's update has an RMS of about sqrt((1 - beta1) / (1 + beta1)) = 0.23 of the learning rate while
gradients are uncorrelated in time, and approaches the rate itself as they align: the state from
which runs diverge. Scored is the growth of x = log(update_rms / learning_rate):

    score = min(drift / 3,  growth over 100 steps / log 1.5)
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.growing import Growing
from surefoot.detect.precursors.growth import Growth, positive_log

DRIFT = 3.0
GROWTH = math.log(1.5)


class UpdateGrowth(Growing):
    """Watches ``update_rms``, or ``update_ratio``, over the learning rate."""

    name = "update-growth"
    signals = ("update_rms", "update_ratio")

    def scaled(self, value: object, values: Mapping[str, Any]) -> float | None:
        """Logarithm of its quotient with the learning rate."""
        update, rate = positive_log(value), positive_log(values.get("learning_rate"))
        return None if update is None or rate is None else update - rate

    def score(self, growth: Growth) -> float:
        """How fast it grows, and how surely."""
        return min(growth.drift() / DRIFT, 100.0 * growth.rate() / GROWTH)

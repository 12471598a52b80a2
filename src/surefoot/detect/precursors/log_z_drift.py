"""Output logits that drift (Chowdhery et al. 2022, 2204.02311; Wortsman et al. 2023, 2309.14322).

The softmax does not see a constant added to all logits, so nothing but a z-loss holds log Z near
0. In half precision a large |log Z| costs digits, and its growth goes with logits that diverge:
they go to minus infinity together, over hundreds of steps. Scored is the growth of

    x = log(1 + |log Z|)

    score = min(drift / 3,  growth over 100 steps / 0.16)

of the mean log Z: its noise is far smaller than that of the largest, which stands in where the mean
is not measured. In a healthy run it creeps up by 0.1 at most.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.growing import Growing
from surefoot.detect.precursors.growth import Growth, finite

DRIFT = 3.0
GROWTH = 0.16


class LogZDrift(Growing):
    """Watches ``log_z``, or ``log_z_abs_max``."""

    name = "log-z-drift"
    signals = ("log_z", "log_z_abs_max")
    prior = 0.1
    floor = 0.005

    def scaled(self, value: object, values: Mapping[str, Any]) -> float | None:
        """``log(1 + |log Z|)``."""
        number = finite(value)
        return None if number is None else math.log1p(abs(number))

    def natural(self, value: float) -> float:
        """``|log Z|`` again."""
        return math.expm1(min(value, 700.0))

    def score(self, growth: Growth) -> float:
        """How fast it grows, and how surely."""
        return min(growth.drift() / DRIFT, 100.0 * growth.rate() / GROWTH)

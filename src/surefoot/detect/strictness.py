"""How strict the thresholds must be for a stated rate of false alarms.

All thresholds of the loss detector are multiplied by one factor. What the factor does to the rate
of false incidents was measured on healthy curves of twenty kinds (``benchmarks/detector_settings.py
--strictness``, 2026-11-30); between the measured factors the logarithm of the rate is taken to be
linear, and beyond them the nearest slope is carried on within the bounds.
"""

import math
from itertools import pairwise

DEFAULT_RATE = 0.2
"""False incidents on 10 000 healthy records that the loss detector may have by default."""

MEASURED = ((0.7, 2.0), (0.85, 0.6), (1.0, 0.2), (1.3, 0.05))
"""Factor on the thresholds, false incidents per 10 000 healthy records."""

LEAST, MOST = 0.6, 2.0


def strictness(rate: float) -> float:
    """Factor on the thresholds at which ``rate`` false incidents come on 10 000 healthy records.

    Raises:
        ValueError: if the rate is not positive and finite.
    """
    if not 0.0 < rate < math.inf:
        raise ValueError(f"expected false_alarms_per_10k above 0, got {rate}; e.g. 0.5")
    wanted = math.log(rate)
    for (low, at_low), (high, at_high) in pairwise(MEASURED):
        if rate >= at_high or high == MEASURED[-1][0]:
            upper, lower = math.log(at_low), math.log(at_high)
            factor = low + (high - low) * (upper - wanted) / (upper - lower)
            return min(max(factor, LEAST), MOST)
    raise AssertionError("the last stretch takes every rate")

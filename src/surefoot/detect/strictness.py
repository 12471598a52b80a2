"""How strict the thresholds must be for a stated rate of false alarms.

All thresholds of the loss detector are multiplied by one factor. ``benchmarks/detector_settings.py
--strictness`` measures what the factor does to the rate of false incidents on healthy curves of
twenty kinds; between the factors of the table the logarithm of the rate is taken to be linear, and
beyond them the nearest slope is carried on within the bounds.
"""

import math
from itertools import pairwise

DEFAULT_RATE = 0.2
"""False incidents on 10 000 healthy records that the loss detector may have by default."""

RATES = ((0.8, 2.3), (1.0, 0.35), (1.25, 0.11), (1.5, 0.08))
"""Factor on the thresholds, false incidents per 10 000 healthy records.

Measured on 372 000 records of twenty kinds of healthy curves (2026-11-30): 87, 13, 4 and 3 false
incidents, so that the second is known to a factor of two and the last two hardly. Half of them come
from noise with a lag-1 correlation of 0.9 and from autocorrelated noise in the first 2000 steps.
"""

LEAST, MOST = 0.6, 2.0


def strictness(rate: float) -> float:
    """Factor on the thresholds at which ``rate`` false incidents come on 10 000 healthy records.

    Raises:
        ValueError: if the rate is not positive and finite.
    """
    if not 0.0 < rate < math.inf:
        raise ValueError(f"expected false_alarms_per_10k above 0, got {rate}; e.g. 0.5")
    wanted = math.log(rate)
    for (low, at_low), (high, at_high) in pairwise(RATES):
        if rate >= at_high or high == RATES[-1][0]:
            upper, lower = math.log(at_low), math.log(at_high)
            factor = low + (high - low) * (upper - wanted) / (upper - lower)
            return min(max(factor, LEAST), MOST)
    raise AssertionError("the last stretch takes every rate")

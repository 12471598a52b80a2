"""How far out is too far, for many signals at once and whatever the weight of their tails.

Of every signal two quantiles of its distance from its course are followed, in noise units: the one
passed by a value in ten and by one in a hundred. What a stated rate of false alarms needs lies far
beyond: with N signals and a budget of r alarms a record each may pass with probability r / N, once
in 10^6 to 10^8. The quantile there is extrapolated along the family of Student's t, from the normal
distribution (its limit) to three degrees of freedom, by the ratio of the two quantiles known:

    q(p) = q99 * ratio(p) * (q99 / q90 / 1.566)^e(p)

where ratio(p) is that of the normal distribution, 1.566 its q99 / q90, and e(p) makes the formula
exact for t with three degrees of freedom, whose tail is a power law: q(p) ~ p^(-1/3). Between the
two it is within six per cent for t with 4, 5 and 10 degrees, down to p = 10^-6.

Two values in a row on one side are rarer than one: where successive distances are independent both
pass q(s) with probability s^2 / 2, so a lower threshold holds for the lesser of two. The memory of
the noise is measured (lag-1 correlation), and takes that advantage back as it approaches 1.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

LOG_Q90, LOG_Q99 = math.log(1.6449), math.log(2.5758)
LOG_Q99_PRIOR = math.log(3.0)
"""Of a signal of which little is known: heavier than normal, as gradient norms are."""

_NORMAL_GAP = LOG_Q99 - LOG_Q90
_T3_GAP = math.log(5.8409 / 2.3534)
PAIR_MARGIN = 2.5
"""For what the correlation does not show: a noise that is loud for a while makes pairs likelier.
Measured on real healthy runs, where 1.15 confirmed two outliers in 1000 records."""
PAIR_CAP = 1.25
"""In thresholds of a single value: what momentum smears over ten records is pairs by itself."""
LARGEST = 200.0
"""No threshold is beyond so many noise units."""


class Thresholds:
    """Thresholds for single values and for pairs, at a stated rate.

    Args:
        rate: false outliers a record, over all signals together.
        signals: how many signals share it.
    """

    def __init__(self, rate: float, signals: int) -> None:
        self.signals = signals
        # Half of the budget for single values, half for pairs.
        chance = min(0.5 * rate / max(signals, 1), 1e-3)
        self._single = _extrapolation(chance)
        self._pair = _extrapolation(math.sqrt(2.0 * chance))

    def single(self, mid: Vector, high: Vector) -> Vector:
        """Threshold of one value, in noise units (N,).

        Args:
            mid: log of the quantile passed by a value in ten (N,).
            high: log of the quantile passed by one in a hundred (N,).
        """
        return _quantile(self._single, mid, high)

    def pair(self, mid: Vector, high: Vector, memory: Vector) -> Vector:
        """Threshold of the lesser of two successive values on one side, in noise units (N,).

        Args:
            mid: as above.
            high: as above.
            memory: lag-1 correlation of the distances (N,).
        """
        alone = PAIR_CAP * _quantile(self._single, mid, high)
        both = np.minimum(PAIR_MARGIN * _quantile(self._pair, mid, high), alone)
        lasting: Vector = np.sqrt(np.clip(1.5 * memory, 0.0, 1.0))
        return both + (alone - both) * lasting


def _extrapolation(chance: float) -> tuple[float, float]:
    """``(log ratio(p), e(p))`` of the module's formula for a two-sided ``chance``."""
    ratio = math.log(NormalDist().inv_cdf(1.0 - chance / 2.0)) - LOG_Q99
    # t with three degrees: P(|T| > x) ~ 2.2 x^-3 far out, and 5.84 is passed by one in a hundred.
    power_law = max(math.log(2.2 / chance) / 3.0 - math.log(5.8409), ratio)
    return ratio, (power_law - ratio) / (_T3_GAP - _NORMAL_GAP)


def _quantile(law: tuple[float, float], mid: Vector, high: Vector) -> Vector:
    ratio, exponent = law
    gap = np.maximum(high - mid, _NORMAL_GAP)
    log = np.maximum(high, LOG_Q99) + ratio + exponent * (gap - _NORMAL_GAP)
    found: Vector = np.exp(np.minimum(log, math.log(LARGEST)))
    return found

"""Exact 95 % intervals of rates, and bootstrap intervals of medians, without scipy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAIL = 0.025
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its interval: ``count`` of ``total``.

    Attributes:
        count: how often it was so.
        total: of how many; 0 if there was nothing to judge by, and then every number is NaN.
    """

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's exact 95 % interval."""
        return binomial_interval(self.count, self.total)


@dataclass(frozen=True, slots=True)
class Median:
    """A median with a bootstrap interval.

    Attributes:
        value: NaN if there are no values.
        low: lower bound of the 95 % interval.
        high: upper bound.
        total: number of values.
    """

    value: float
    low: float
    high: float
    total: int


def binomial_interval(count: int, total: int) -> tuple[float, float]:
    """Exact 95 % interval of a share (Clopper and Pearson 1934, Biometrika 26), by bisection.

    Args:
        count: successes, 0 to ``total``.
        total: trials; 0 gives (NaN, NaN).
    """
    if not 0 <= count <= total:
        raise ValueError(f"expected a count of 0 to {total}, got {count}")
    if total == 0:
        return math.nan, math.nan
    choices = _log_factorial(total)
    ways = choices[total] - choices - choices[::-1]

    def at_most(share: float, upto: int) -> float:
        k = np.arange(upto + 1)
        terms = ways[: upto + 1] + k * math.log(share) + (total - k) * math.log1p(-share)
        return float(np.exp(terms).sum())

    low = 0.0 if count == 0 else _falling(lambda p: at_most(p, count - 1), 1 - TAIL, 0.0, 1.0)
    high = 1.0 if count == total else _falling(lambda p: at_most(p, count), TAIL, 0.0, 1.0)
    return low, high


def poisson_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval for the mean of a Poisson count (Garwood 1936), by bisection."""
    if count < 0:
        raise ValueError(f"expected a count of 0 or more, got {count}")
    factorials = _log_factorial(count)

    def at_most(mean: float, upto: int) -> float:
        k = np.arange(upto + 1)
        return float(np.exp(k * math.log(mean) - mean - factorials[: upto + 1]).sum())

    most = 10.0 + 4.0 * count
    low = 0.0 if count == 0 else _falling(lambda m: at_most(m, count - 1), 1 - TAIL, 0.0, most)
    return low, _falling(lambda m: at_most(m, count), TAIL, 0.0, most)


def median_interval(values: Sequence[float], *, seed: int = 0) -> Median:
    """The median and its percentile-bootstrap 95 % interval (Efron 1979).

    Args:
        values: any order; NaN is not allowed, infinities are.
        seed: of the resampling; the same seed gives the same interval.
    """
    return quantile_interval(values, 0.5, seed=seed)


def quantile_interval(values: Sequence[float], share: float, *, seed: int = 0) -> Median:
    """As :func:`median_interval` for any quantile, 0 to 1: the value at rank ceil(share * n)."""
    if not values:
        return Median(math.nan, math.nan, math.nan, 0)
    ordered = np.sort(np.asarray(values, dtype=float))
    # A quantile of a resample is an order statistic: drawing ranks is enough, and copes with inf.
    draws = np.random.default_rng(seed).integers(0, len(ordered), (RESAMPLES, len(ordered)))
    ranks = np.sort(_quantile(np.sort(draws, axis=1), share))
    cut = int(TAIL * RESAMPLES)
    low, high = ordered[int(ranks[cut])], ordered[int(ranks[RESAMPLES - 1 - cut])]
    middle = _quantile(ordered[None, :], share)[0]
    return Median(float(middle), float(low), float(high), len(ordered))


def _quantile(ordered: NDArray[np.generic], share: float) -> NDArray[np.generic]:
    """The ``share`` quantile of each row; a value of the row, so that a rank stays a rank."""
    return ordered[:, max(0, math.ceil(share * ordered.shape[1]) - 1)]


def _log_factorial(upto: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, upto + 1)))])


def _falling(f: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where the falling function ``f`` takes the value ``target``."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > target else (low, middle)
    return low

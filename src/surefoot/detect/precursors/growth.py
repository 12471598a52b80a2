"""The slow growth of one signal: how fast, and how surely."""

import math
from typing import Any, Final

SLOW_SPAN = 50.0
SLOW_STEPS = 200.0
LEAST_SPAN = 12.0
RATIO = 8.0
NOISE_SPAN = 64.0
_CLIP = 4.0
_NAMES = ("count", "fast", "slow", "noise", "gap", "step", "beyond")


class Growth:
    """Two exponential means of a signal, a short and a long one, and their distance.

    Of a ramp of slope g a mean of span n lags n g behind, so the distance of the two over the
    difference of their spans is the slope: a regression that needs no memory (MACD, Appel 1979, is
    the same quantity). A value is clipped at four noise units before it moves them, unless the one
    before was beyond them on the same side.

    Args:
        prior: noise assumed at first, in the signal's unit.
        floor: least noise.

    Attributes:
        count: values seen.
        fast: where the signal runs.
        noise: mean absolute distance from there.
    """

    def __init__(self, *, prior: float, floor: float) -> None:
        self.prior: Final = prior
        self.floor: Final = floor
        self.count = 0
        self.fast = self.slow = 0.0
        self.noise = prior
        self.gap = 1.0
        self.step = 0
        self.beyond = 0

    def update(self, step: int, value: float) -> None:
        """Take up a finite value."""
        count = self.count
        if count == 0:
            self.fast = self.slow = value
            self.count, self.step = 1, step
            return
        distance = value - self.fast
        bound = _CLIP * self.noise
        clipped, side = distance, 0
        if distance > bound or distance < -bound:
            side = 1 if distance > 0.0 else -1
            if side != self.beyond:
                clipped = side * bound  # twice in a row on one side it is no outlier: follow
        self.beyond = side
        self.noise += (min(abs(clipped), bound) - self.noise) / min(count + 1, NOISE_SPAN)
        if self.noise < self.floor:
            self.noise = self.floor
        span = self.span()
        self.fast += clipped / min(count + 1, span / RATIO)
        self.slow += (self.fast - self.slow) / min(count + 1, span)
        if step > self.step:
            self.gap += (step - self.step - self.gap) / min(count, 32)
        self.step, self.count = step, count + 1

    def drift(self) -> float:
        """Distance of the two means, in noise units: positive while the signal grows."""
        return (self.fast - self.slow) / self.noise

    def rate(self) -> float:
        """Slope a step, in the signal's unit."""
        # A mean over all of n values so far lags by n / 2 of them.
        span = self.span()
        lag = span if self.count > 2 * span else max(self.count / 2.0, 8.0)
        return (self.fast - self.slow) / (max(lag - span / RATIO, 4.0) * self.gap)

    def span(self) -> float:
        """Values in the long mean: 50, fewer where they come more than four steps apart."""
        return min(max(SLOW_STEPS / self.gap, LEAST_SPAN), SLOW_SPAN)

    def state_dict(self) -> list[Any]:
        """All state, as JSON values."""
        return [getattr(self, name) for name in _NAMES]

    def load_state_dict(self, state: list[Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        for name, value in zip(_NAMES, state, strict=True):
            setattr(self, name, value)


def positive_log(value: object) -> float | None:
    """Logarithm of a positive finite number; None for anything else."""
    if type(value) is not float:
        try:
            value = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
    return math.log(value) if 0.0 < value < math.inf else None


def finite(value: object) -> float | None:
    """A finite number; None for anything else."""
    if type(value) is not float:
        try:
            value = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
    return value if -math.inf < value < math.inf else None

"""ZClip: the z-score of the gradient norm against exponentially weighted moments."""

import math

from surefoot.records import StepRecord

from .protocol import Baseline, number


class ZClip(Baseline):
    """Flags a step whose gradient it would clip; the moments learn from the clipped norm.

    A NaN makes its moments NaN for ever, after which it flags nothing more.
    """

    name = "ZClip"
    watches = ("grad_norm",)
    setting = "z > 2.5, decay 0.97, warm-up 25 (its defaults)"
    Z, DECAY, WARM_UP = 2.5, 0.97, 25

    def __init__(self) -> None:
        self.first: list[float] = []
        self.mean = self.variance = 0.0

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        norm = number(record, "grad_norm")
        if norm is None:
            return False
        if len(self.first) < self.WARM_UP:
            self.first.append(norm)
            if len(self.first) == self.WARM_UP:
                self.mean = sum(self.first) / self.WARM_UP
                self.variance = sum(_square(x - self.mean) for x in self.first) / self.WARM_UP
            return False
        sigma = math.sqrt(self.variance) if self.variance >= 0 else math.nan
        z = (norm - self.mean) / (sigma + 1e-6)
        flagged = z > self.Z
        if flagged:
            norm = self.mean + self.Z * sigma / (z / self.Z)
        keep = self.DECAY
        self.mean = keep * self.mean + (1 - keep) * norm
        self.variance = keep * self.variance + (1 - keep) * _square(norm - self.mean)
        return flagged


def _square(value: float) -> float:
    return value * value  # ** raises where a tensor overflows to infinity

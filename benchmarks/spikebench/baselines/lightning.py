"""Lightning's SpikeDetection: twice the mean of the last ten away from it."""

import math
from collections import deque

from surefoot.records import StepRecord

from .protocol import Baseline, number


class Lightning(Baseline):
    """Flags a loss that is not finite, or that rose and is |x - mean| >= 2 |mean| away."""

    name = "Lightning SpikeDetection"
    watches = ("loss",)
    setting = "rtol 2.0, window 10, warm-up 1 (its defaults)"

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=10)
        self.last = math.inf

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        loss = number(record, "loss")
        if loss is None:
            return False
        if not math.isfinite(loss):
            return True
        if self.recent and loss > self.last:
            mean = math.fsum(self.recent) / len(self.recent)
            if abs(loss - mean) >= abs(2.0 * mean):
                return True
        self.recent.append(loss)
        self.last = loss
        return False

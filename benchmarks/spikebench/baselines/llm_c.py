"""llm.c's OutlierDetector: the z-score of a value within its own window of 128."""

import math
from collections import deque

from surefoot.records import StepRecord

from .protocol import Baseline, number


class Outliers:
    """Running sums over the window, the new value in it: one NaN makes them NaN for ever."""

    SIZE = 128

    def __init__(self) -> None:
        self.values: deque[float] = deque()
        self.total = self.squares = 0.0

    def z(self, value: float) -> float:
        """Score of ``value`` after it was pushed; NaN until the window is full."""
        self.values.append(value)
        self.total += value
        self.squares += value * value
        if len(self.values) > self.SIZE:
            old = self.values.popleft()
            self.total -= old
            self.squares -= old * old
        if len(self.values) < self.SIZE:
            return math.nan
        mean = self.total / self.SIZE
        variance = self.squares / self.SIZE - mean * mean
        if math.isnan(variance):
            return math.nan
        return (value - mean) / math.sqrt(variance) if variance > 0 else 0.0


class LlmC(Baseline):
    """Flags a loss or a gradient norm whose z is finite and above the threshold.

    Args:
        threshold: of both; llm.c has it off by default. In a window of 128 with the value itself in
            it no z can pass 11.2.
    """

    name = "llm.c z-score"
    watches = ("loss", "grad_norm")
    setting = "z > 6 for loss and gradient norm (off by default), window 128"

    def __init__(self, threshold: float = 6.0) -> None:
        self.threshold = threshold
        self.windows = {signal: Outliers() for signal in self.watches}

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        flagged = False
        for signal, window in self.windows.items():
            value = number(record, signal)
            if value is not None:
                z = window.z(value)
                flagged |= math.isfinite(z) and z > self.threshold
        return flagged

"""llm-foundry's KillLossSpike: five losses in a row of twice the window's mean, or a high loss."""

import math

from surefoot.records import StepRecord

from .protocol import Baseline, Window, number


class LlmFoundry(Baseline):
    """Flags when it would log a spike; with Composer's NaNMonitor beside it.

    Args:
        total_steps: planned length of the run; the window is 5 % of it, at least 100.
        nan_monitor: also flag a NaN loss, as the callback beside it does (an infinite one passes).
    """

    name = "llm-foundry KillLossSpike"
    watches = ("loss",)
    setting = "ratio 2, patience 4, window max(100, 5 % of the run); NaNMonitor beside it"
    RATIO, PATIENCE, CAP = 2.0, 4, 10.0

    def __init__(self, total_steps: int = 0, *, nan_monitor: bool = True) -> None:
        self.window = Window(max(100, round(0.05 * total_steps)))
        self.nan_monitor = nan_monitor
        self.outliers = 0
        self.cap: float | None = None

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        loss = number(record, "loss")
        if loss is None:
            return False
        flagged = self.nan_monitor and math.isnan(loss)
        size = len(self.window.values)
        if len(self.window) == size:
            if self.cap is None:
                self.cap = min(float(self.window.values.max()), self.CAP)
            self.outliers = self.outliers + 1 if loss >= self.RATIO * self.window.mean() else 0
            flagged |= self.outliers > self.PATIENCE
            if self.window.count >= 2 * size:
                high = int((self.window.values > self.cap).sum())
                flagged |= high >= size / 2
        self.window.push(loss)
        return flagged

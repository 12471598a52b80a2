"""OLMo-core's SkipStepOptimizer: loss or gradient norm above mean + 6 sigma of the last 128."""

from surefoot.records import StepRecord

from .protocol import Baseline, Window, number


class OlmoCore(Baseline):
    """Skips a step unless both signals lie within 6 standard deviations of their window.

    What was skipped stays in the window; one NaN makes the deviation NaN, so that the next 128
    steps are skipped, too.
    """

    name = "OLMo-core skip-step"
    watches = ("loss", "grad_norm")
    setting = "window 128, 6 sigma (its defaults)"
    SIZE, SIGMAS = 128, 6.0

    def __init__(self) -> None:
        self.windows = {signal: Window(self.SIZE) for signal in self.watches}

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        flagged = False
        for signal, window in self.windows.items():
            value = number(record, signal)
            if value is None:
                continue
            # The newest value counts towards the 64 that are needed, not towards the moments.
            if len(window) + 1 >= self.SIZE // 2:
                mean, sigma = window.moments(unbiased=True)
                flagged |= not value - mean <= self.SIGMAS * sigma
            window.push(value)
        return flagged

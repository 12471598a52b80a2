"""msprobe's AnomalyTurbulence: a norm above 1.5 times its exponentially weighted mean."""

import numpy as np
from numpy.typing import NDArray

from surefoot.records import StepRecord

from .protocol import Baseline, number


class Msprobe(Baseline):
    """Flags |v| > mean * (1 + threshold) of any gradient norm, the global one and each place's.

    The mean is that before the value, which then enters it, outlier or not. A NaN is flagged.
    """

    name = "msprobe AnomalyTurbulence"
    watches = ("grad_norm",)
    setting = "threshold 0.5 (the example of its documentation), decay 0.99"
    DECAY, THRESHOLD = 0.99, 0.5

    def __init__(self) -> None:
        self.mean: NDArray[np.float64] | None = None

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        norm = number(record, "grad_norm")
        if norm is None:
            return False
        values = np.abs(np.append(record.places.get("grad_norm", ()), norm).astype(float))
        if self.mean is None or self.mean.shape != values.shape:
            self.mean = values
            return bool(np.isnan(values).any())
        with np.errstate(invalid="ignore", over="ignore"):
            flagged = (values > self.mean * (1 + self.THRESHOLD)) | np.isnan(values)
            self.mean = self.DECAY * self.mean + (1 - self.DECAY) * values
        return bool(flagged.any())

"""metaseq's skip by ratio: the loss over its exponentially weighted mean."""

import math

from surefoot.records import StepRecord

from .protocol import Baseline, number, ratio


class Metaseq(Baseline):
    """Flags x / mean > r. The mean learns only from what is not flagged: it locks up after a shift.

    Args:
        ratio: ``ewm_ratio_to_skip_batch``; it is off by default.
    """

    name = "metaseq"
    watches = ("loss",)
    setting = "ratio 1.2 (off by default), span 9"
    ALPHA = 2.0 / (9 + 1)

    def __init__(self, ratio: float = 1.2) -> None:
        self.ratio = ratio
        self.mean: float | None = None

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        loss = number(record, "loss")
        if loss is None:
            return False
        if self.mean is None:
            self.mean = loss if math.isfinite(loss) else None
            return False
        over = ratio(loss, self.mean)
        if over <= self.ratio:
            self.mean += self.ALPHA * (loss - self.mean)
        return over > self.ratio

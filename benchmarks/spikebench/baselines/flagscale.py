"""FlagScale's loss check: a rise of a fifth over the last loss that it accepted."""

import math

from surefoot.records import StepRecord

from .protocol import Baseline, number, ratio


class FlagScale(Baseline):
    """Flags (x - last) / last >= 0.2, and an infinite loss.

    A flagged loss does not become the last one: after a lasting rise every step is flagged. A NaN
    does become it, unflagged.

    Args:
        warm_up: steps before it is switched on.
    """

    name = "FlagScale"
    watches = ("loss",)
    setting = "threshold 0.2 (its default), on after 100 steps"

    def __init__(self, warm_up: int = 100) -> None:
        self.warm_up = warm_up
        self.seen = 0
        self.last: float | None = None

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        loss = number(record, "loss")
        if loss is None:
            return False
        self.seen += 1
        if self.last is not None and self.seen > self.warm_up:
            if math.isinf(loss) or ratio(loss - self.last, self.last) >= 0.2:
                return True
        self.last = loss
        return False

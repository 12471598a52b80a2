"""LOG008: the loss is exactly 0 while the validation loss is NaN: a NaN masked by the logger."""

import math
from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding
from surefoot.records import Finding

ENOUGH = 2


class ZeroLoss(Plain):
    """Holds losses of exactly 0 against the validation loss, where no gradient norm tells."""

    name = "zero-loss"
    fields = ("zeros", "since", "validation", "told")

    def __init__(self) -> None:
        self.zeros = 0
        self.since: int | None = None
        self.validation: int | None = None
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the losses of a row."""
        if self.told:
            return NOTHING
        values = row.values
        loss = values.get("loss")
        if loss is not None:
            grad = values.get("grad_norm")
            if loss == 0.0 and (grad is None or grad == 0.0):
                self.zeros += 1
                self.since = row.step if self.since is None else self.since
            else:
                self.zeros, self.since, self.validation = 0, None, None
        held_out = values.get("validation_loss")
        if held_out is not None:
            self.validation = row.step if math.isnan(held_out) else None
        if self.zeros < ENOUGH or self.validation is None:
            return NOTHING
        self.told = True
        return [
            finding(
                "LOG008",
                f"the loss is exactly 0 on {self.zeros} records from step {self.since} on and the "
                f"validation loss is NaN at step {self.validation}: the loss is NaN too, masked by "
                "the logger, and the weights are lost",
                row,
                first=self.since,
                signal="loss",
                evidence={
                    "zeros": self.zeros,
                    "since_step": self.since,
                    "validation_step": self.validation,
                },
                actions=(
                    "stop: nothing is trained; log the loss unfiltered "
                    "(logging_nan_inf_filter=False) and the gradient norm",
                    "restart from the last checkpoint whose validation loss is finite, and replay "
                    "the first batches on one device in fp32",
                ),
                references=("hiyouga/LlamaFactory issue 8439",),
            )
        ]

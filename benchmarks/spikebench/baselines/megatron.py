"""Megatron-LM: a loss or gradient of ten times the maximum of the first 100 values."""

import math

from surefoot.records import StepRecord

from .protocol import Baseline, number


class FirstMaximum:
    """Ten times the largest of the first 100 finite values, which is never refreshed."""

    FACTOR, SAMPLES = 10.0, 100

    def __init__(self) -> None:
        self.largest = 0.0
        self.seen = 0

    def unexpectedly_large(self, value: float) -> bool:
        """Whether ``value`` is; the first 100 only teach."""
        value = abs(value)
        if self.seen < self.SAMPLES:
            if math.isfinite(value):
                self.largest = max(self.largest, value)
                self.seen += 1
            return False
        return value >= self.FACTOR * self.largest


class Megatron(Baseline):
    """The loss check sees the sum over tokens; the gradient check each bucket (here: each place).

    Args:
        large_grads: with the check of large gradients.
        fatal_check: with the check of NaN and infinity that runs beside it by default.
    """

    watches: tuple[str, ...] = ("loss",)

    def __init__(self, *, large_grads: bool = False, fatal_check: bool = True) -> None:
        self.name = "Megatron spiky + large grads" if large_grads else "Megatron spiky"
        self.setting = "factor 10, first 100 values; its NaN check beside it"
        self.large_grads, self.fatal_check = large_grads, fatal_check
        if large_grads:
            self.watches = ("loss", "grad_norm")
        self.loss = FirstMaximum()
        self.buckets: list[FirstMaximum] = []

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        flagged = False
        loss = number(record, "loss")
        if loss is not None:
            flagged |= self.fatal_check and not math.isfinite(loss)
            flagged |= self.loss.unexpectedly_large(loss * (number(record, "tokens") or 1.0))
        norm = number(record, "grad_norm")
        if norm is not None:
            flagged |= self.fatal_check and not math.isfinite(norm)
        if self.large_grads:
            norms = record.places.get("grad_norm")
            values = norms.tolist() if norms is not None else [] if norm is None else [norm]
            while len(self.buckets) < len(values):
                self.buckets.append(FirstMaximum())
            for bucket, value in zip(self.buckets, values, strict=False):
                flagged |= bucket.unexpectedly_large(value)
        return flagged

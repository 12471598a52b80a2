"""SCH003: the learning rate jumps up in one record, in the middle of a smooth schedule."""

from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

JUMP = 2.5
"""Factor in one record: warm-ups, re-warms and ramps go slower, decay steps go down."""
SMOOTH = 0.05
"""Largest relative change from record to record that counts as a smooth schedule."""
ENOUGH = 100
PEAK = 0.02
_ANNOUNCED = {"phase": "data_phase", "batch": "batch_size"}
AGAIN = 50


class RateJump(Plain):
    """Watches for a rate that a schedule which has been smooth cannot have given.

    A typing slip, another parameter group, a unit: 1.0 for 0.1. Warm restarts (Loshchilov and
    Hutter 2016, 1608.03983) go back to the peak or below, a restart of the run has a monitor of its
    own, and a change that comes with another data phase or batch size is taken as planned.
    """

    name = "rate-jump"
    fields = ("step", "attempt", "rate", "smooth", "peak", "phase", "batch", "since")

    def __init__(self) -> None:
        self.step = 0
        self.attempt = 0
        self.rate = 0.0
        self.smooth = 0
        self.peak = 0.0
        self.phase: float | None = None
        self.batch: float | None = None
        self.since = AGAIN

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the rate of a row."""
        rate = finite(row.values, "learning_rate")
        if rate is None or rate <= 0.0:
            return NOTHING
        planned = row.attempt != self.attempt
        for name in ("phase", "batch"):
            value = finite(row.values, _ANNOUNCED[name])
            known = getattr(self, name)
            if value is not None:
                planned = planned or (known is not None and value != known)
                setattr(self, name, value)
        before, step = self.rate, self.step
        self.attempt = row.attempt
        self.step, self.rate = row.step, rate
        self.since += 1
        if not before:
            self.peak = rate
            return NOTHING
        jumped = rate >= JUMP * before and self.smooth >= ENOUGH and self.since > AGAIN
        # Cycles go back to the peak or to a lower one: what is above every rate so far is new.
        to_peak = rate <= (1.0 + PEAK) * self.peak
        self.smooth = self.smooth + 1 if abs(rate - before) <= SMOOTH * before else 0
        peak = self.peak
        if not jumped or planned or to_peak:
            if self.since > AGAIN:  # a slip that was told is no peak of the schedule
                self.peak = max(peak, rate)
            return NOTHING
        self.since = 0
        high = f", {rate / peak:.3g} times the highest so far"
        return [
            finding(
                "SCH003",
                f"the learning rate went from {before:.4g} at step {step} to {rate:.4g} at step "
                f"{row.step}, a factor of {rate / before:.3g} in one record of a schedule that was "
                f"smooth{high}",
                row,
                signal="learning_rate",
                evidence={"before": before, "rate": rate, "factor": rate / before, "peak": peak},
                actions=(
                    f"if this was not meant, go back to a checkpoint at or before step "
                    f"{row.step - 1}: the update of step {row.step} was made with it",
                    "if it was, announce it (`data_phase`), or raise the rate over some hundred "
                    "steps",
                ),
                cause="rate",
            )
        ]

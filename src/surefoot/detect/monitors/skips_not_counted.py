"""LOG005: the loss scale fell, which only an overflow does, while the count of skips says 0."""

import math
from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

FALLS = 2
"""Halvings without a counted skip until it is told; one may be a matter of when each is printed."""


class SkipsNotCounted(Plain):
    """Holds the loss scale against the count of skipped updates (fp16).

    A dynamic loss scale is halved after an overflow, and the update of that step is skipped. A
    scale that falls while the counter of its own records says 0 shows that the counter is not to
    be trusted. A restart sets the scale anew and counts for nothing.
    """

    name = "skips-not-counted"
    fields = ("step", "attempt", "scale", "clean", "falls", "first", "since", "told")

    def __init__(self) -> None:
        self.step: int | None = None
        self.attempt = 0
        self.scale: float | None = None
        self.clean = False
        self.falls = 0
        self.first: float = 0.0
        self.since: int | None = None
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the scale and the counter of a row."""
        scale = finite(row.values, "loss_scale")
        if scale is None or scale < 1e-30 or self.told:
            return NOTHING
        before, clean = self.scale, self.clean
        fresh = self.step is None or row.attempt > self.attempt or row.step <= self.step
        self.clean = self._nothing_skipped(row)
        if not fresh and before is not None and scale <= 0.5 * before:
            if clean and self.clean:
                if self.falls == 0:
                    self.first, self.since = before, self.step
                self.falls += round(math.log2(before / scale))
            else:
                self.falls = 0
        self.step, self.attempt, self.scale = row.step, row.attempt, scale
        if self.falls < FALLS:
            return NOTHING
        self.told = True
        return [self._finding(row, scale)]

    def _nothing_skipped(self, row: Row) -> bool:
        """Whether a counter that covers every step since the record before says 0."""
        counted = finite(row.values, "skipped_iterations")
        if counted is None and self.step is not None and row.step == self.step + 1:
            counted = finite(row.values, "update_skipped")
        return counted == 0.0

    def _finding(self, row: Row, scale: float) -> Finding:
        return finding(
            "LOG005",
            f"the loss scale fell from {self.first:.6g} to {scale:.6g} between steps {self.since} "
            f"and {row.step}, at least {self.falls} overflows, while the count of skipped "
            "updates says 0: the counter cannot be trusted",
            row,
            first=self.since,
            signal="loss_scale",
            evidence={
                "scale_before": self.first,
                "scale": scale,
                "halvings": self.falls,
                "skipped_counted": 0,
            },
            actions=(
                "take the loss scale, not the counter, as the record of overflows",
                "log every step while the scale falls, and the gradient norm before clipping",
            ),
            references=("BLOOM tr1-13B chronicle (iterations 29020 to 29090)",),
        )

"""PRC001: every update is skipped: the run costs time and trains nothing."""

from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

SETTLING = 40
"""Skips in a row from the start until it is told: from 2^32 a first scale may need 33 halvings."""
STORM = 20
LEAST_SCALE = 1.0
AT_LEAST = 5


class AllSkipped(Plain):
    """Counts updates skipped one after the other, by record or by the trainer's counter."""

    name = "all-skipped"
    fields = ("step", "row", "since", "good", "told")

    def __init__(self) -> None:
        self.step: int | None = None
        self.row = 0
        self.since: int | None = None
        self.good = False
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the skips of a row."""
        values = row.values
        skipped = finite(values, "skipped_iterations")
        last, self.step = self.step, row.step
        if not skipped and self.row == 0:
            self.good = self.good or skipped == 0.0 or values.get("update_skipped") == 0.0
            if not values.get("update_skipped"):
                return NOTHING
        window = 1 if last is None else max(1, row.step - last)
        if skipped is None:
            # Of this step alone: steps between records were not skipped as far as is known.
            skipped = finite(values, "update_skipped") or 0.0
        if skipped < window:
            self.row, self.since, self.told = 0, None, False
            self.good = self.good or skipped == 0.0
            return NOTHING
        self.row += int(min(skipped, 1e9))
        self.since = row.step - int(skipped) + 1 if self.since is None else self.since
        scale = finite(values, "loss_scale")
        bottom = scale is not None and scale <= LEAST_SCALE and self.row >= AT_LEAST
        if self.told or not (bottom or self.row >= (STORM if self.good else SETTLING)):
            return NOTHING
        self.told = True
        at = "" if scale is None else f", the loss scale is at {scale:.6g}"
        return [
            finding(
                "PRC001",
                f"all {self.row} updates since step {self.since} were skipped{at}: nothing is "
                "trained",
                row,
                first=self.since,
                cause="precision",
                signal="update_skipped",
                evidence={"skipped": self.row, "since_step": self.since, "loss_scale": scale},
                actions=(
                    "stop: run in bf16 where the device has it (weights that were trained in bf16 "
                    "overflow in fp16)",
                    "else find the first tensor that overflows: replay this batch in fp32 and look "
                    "at the largest activation and gradient of each layer",
                ),
                references=(
                    "ymcui/Chinese-LLaMA-Alpaca-2 issue 97",
                    "Micikevicius et al. 2017, 1710.03740 (dynamic loss scaling)",
                ),
            )
        ]

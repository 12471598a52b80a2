"""LOG007: the loss is no longer printed while records go on: most likely it is not finite."""

from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

REGULAR = 8
MISSING = 5
COUNTED = 2
_TRAINING = ("learning_rate", "grad_norm", "loss_scale", "skipped_iterations")


class LossVanished(Plain):
    """Watches for training records without a loss where every one before had it.

    Megatron-LM leaves the loss out of a line if it was NaN in every step of it, with a count of
    skipped iterations of 0 beside; a line whose updates were skipped has none either, but says so.
    """

    name = "loss-vanished"
    fields = ("counter", "present", "missing", "since", "told")

    def __init__(self) -> None:
        self.counter: float | None = None
        self.present = 0
        self.missing = 0
        self.since: int | None = None
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge whether a record has the loss it should have."""
        values = row.values
        if self.told:
            return NOTHING
        if "loss" in values and values["loss"] is not None:
            self.counter = finite(values, "skipped_iterations")
            self.present = self.present + 1 if self.missing == 0 else 1
            self.missing, self.since = 0, None
            return NOTHING
        if not any(name in values for name in _TRAINING):
            return NOTHING
        skipped = [values.get(n) for n in ("skipped_iterations", "update_skipped")]
        if any(count is not None and count > 0 for count in skipped):
            return NOTHING
        self.missing += 1
        self.since = row.step if self.since is None else self.since
        count = values.get("skipped_iterations")
        # A line cut off at its end lacks the counter, but has the scale that follows the loss.
        cut = count is None and self.counter == 0.0 and "loss_scale" in values
        counted = count == 0.0 or cut
        sure = counted and self.present >= COUNTED
        if not sure and (self.present < REGULAR or self.missing < MISSING):
            return NOTHING
        self.told = True
        says = ", with a count of skipped updates of 0" if count == 0.0 else ""
        return [
            finding(
                "LOG007",
                f"records from step {self.since} on have no loss{says}, where all {self.present} "
                "before had one: it is most likely NaN and was left out, and nothing judges it",
                row,
                first=self.since,
                signal="loss",
                evidence={"since_step": self.since, "records_before": self.present},
                actions=(
                    f"stop and look at step {self.since}: log the loss also when it is not finite",
                    f"resume from a checkpoint before step {self.since}; later ones may hold NaN",
                ),
                references=("epfLLM/Megatron-LLM issue 33",),
            )
        ]

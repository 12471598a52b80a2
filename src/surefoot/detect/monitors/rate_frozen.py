"""LOG006: after a value that is not finite the learning rate stands still: updates are skipped."""

from collections.abc import Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding
from surefoot.records import Finding

MOVING = 3
FROZEN = 2
AT_ONCE = 3


class RateFrozen(Plain):
    """Watches whether a rate that moved with every record stops after a NaN.

    Trainers that skip an update do not step the scheduler either, and few of them say so.
    """

    name = "rate-frozen"
    fields = ("rate", "moves", "bad", "records", "frozen", "told")

    def __init__(self) -> None:
        self.rate: float | None = None
        self.moves = 0
        self.bad: int | None = None
        self.records = 0
        self.frozen = 0
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the rate of a row."""
        values = row.values
        rate = values.get("learning_rate")
        if rate is None or self.told or rate - rate != 0.0:
            return NOTHING
        loss, grad = values.get("loss", 0.0), values.get("grad_norm", 0.0)
        same = self.rate == rate
        self.rate = rate
        if loss - loss == 0.0 and grad - grad == 0.0:  # both finite, or absent
            self.moves = 0 if same else self.moves + 1
            self.bad, self.frozen = None, 0
            return NOTHING
        if self.bad is None:
            self.bad, self.records = row.step, 0
        self.records += 1
        if not same and self.records > AT_ONCE:
            self.moves = 0  # it went on: what stands still later is at its schedule's end
        self.frozen = self.frozen + 1 if same else 0
        if self.frozen < FROZEN or self.moves < MOVING or self._said(row):
            return NOTHING
        self.told = True
        return [
            finding(
                "LOG006",
                f"the learning rate stands at {rate:.10g} since a value that is not finite at step "
                f"{self.bad}, after it had moved with every record: the updates are probably "
                "skipped",
                row,
                first=self.bad,
                signal="learning_rate",
                evidence={
                    "learning_rate": rate,
                    "since_step": self.bad,
                    "records": self.frozen + 1,
                },
                actions=(
                    "check before you trust the weights: compare two checkpoints after step "
                    f"{self.bad}; if they differ, NaN has reached them",
                    "keep the batch of that step and replay it on one device: with overlapped "
                    "gradient communication off first, then look at the batch",
                ),
                references=("hiyouga/LlamaFactory issue 5627",),
            )
        ]

    @staticmethod
    def _said(row: Row) -> bool:
        """Whether the trainer itself says that it skips."""
        counts = [row.values.get(n) for n in ("update_skipped", "skipped_iterations")]
        return any(count is not None and count > 0 for count in counts)

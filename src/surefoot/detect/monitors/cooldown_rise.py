"""SCH002: the loss rises block after block while the learning rate falls: something grows."""

import math
import re
from collections.abc import Mapping, Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

BLOCK = 16
"""Records whose mean loss is one point."""
RISES = 6
"""Blocks that must rise one after the other, from the lowest on."""
CLEAR = 8.0
"""Standard errors of a block's mean that the whole rise must be."""
LEAST = 0.01
FELL = 0.85
"""Rate now over that at the lowest block: a decay is under way, and not just begun."""
MOST = 24
LARGEST = 1e3
GREW = 1.5
STILL = 1.1
_NORM = re.compile(r"(?!.*grad)(.*norm.*)|log_z.*")
_HEAD = re.compile(r"(lm_?head|^head|output_?(proj|layer|embed)|unembed|logits?|^log_z)")


class CooldownRise(Plain):
    """Follows the mean loss of blocks of 16 records through a decay of the rate.

    While the rate falls the loss falls, faster than before: less noise in the weights (Wen et al.
    2024, 2410.05192). A loss that turns and creeps up under a falling rate is abnormal without any
    spike; where the head's norm grows alone it is the output logits. A new data phase or another
    batch size begins anew.
    """

    name = "cooldown-rise"
    fields = ("step", "phase", "batch", "total", "square", "count", "rate", "last", "lowest",
              "lowest_rate", "lowest_step", "rises", "first", "norms", "told")  # fmt: skip

    def __init__(self) -> None:
        self.step: int | None = None
        self.phase: float | None = None
        self.batch: float | None = None
        self.total = self.square = 0.0
        self.count = 0
        self.rate = 0.0
        self.last: float | None = None
        self.lowest: float | None = None
        self.lowest_rate = 0.0
        self.lowest_step = 0
        self.rises = 0
        self.first: dict[str, float] = {}
        self.norms: dict[str, float] = {}
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Add a record to its block, and judge a block that is full."""
        values = row.values
        loss, rate = values.get("loss"), values.get("learning_rate")
        if loss is None or rate is None or self.told or rate - rate != 0.0:
            return NOTHING
        if not -LARGEST < loss < LARGEST:
            return NOTHING
        if values.get("batch_size") != self.batch or values.get("data_phase") != self.phase:
            self.phase, self.batch = finite(values, "data_phase"), finite(values, "batch_size")
            self._anew()
        self.total += loss
        self.square += loss * loss
        self.count += 1
        self.rate = rate
        if self.count < BLOCK:
            return NOTHING
        mean = self.total / BLOCK
        spread = math.sqrt(max(0.0, self.square / BLOCK - mean * mean) / BLOCK)
        self.total = self.square = 0.0
        self.count = 0
        self._keep_norms(values)
        return self._judge(row, mean, spread)

    def _anew(self) -> None:
        self.total = self.square = 0.0
        self.count = self.rises = 0
        self.last = self.lowest = None

    def _keep_norms(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if value > 0.0 and value - value == 0.0 and _NORM.fullmatch(name):
                if name in self.first or len(self.first) < MOST:
                    self.first.setdefault(name, value)
                    self.norms[name] = value

    def _judge(self, row: Row, mean: float, spread: float) -> Sequence[Finding]:
        last, self.last = self.last, mean
        if self.lowest is None or last is None or mean <= self.lowest:
            self.lowest, self.lowest_rate, self.lowest_step = mean, self.rate, row.step
            self.rises = 0
            return NOTHING
        self.rises = self.rises + 1 if mean > last else 0
        rise = mean - self.lowest
        decays = 0.0 < self.rate <= FELL * self.lowest_rate
        if self.rises < RISES or not decays or rise < max(LEAST, CLEAR * spread):
            return NOTHING
        self.told = True
        return [self._finding(row, mean, rise)]

    def _finding(self, row: Row, mean: float, rise: float) -> Finding:
        grown = {name: self.norms[name] / self.first[name] for name in self.first}
        grew = sorted((n for n in grown if grown[n] >= GREW), key=lambda n: -grown[n])
        still = [n for n in grown if 1.0 / STILL <= grown[n] <= STILL]
        head = bool(grew) and bool(_HEAD.search(grew[0].removeprefix("norm_").lower()))
        only = "" if len(grew) > 1 else "only "
        words = ", ".join(f"{name} (x{grown[name]:.2g})" for name in grew[:3])
        growth = f"; of the tracked norms {only}{words} grew" if grew else ""
        flat = f", {len(still)} stood still" if grew and still else ""
        logits = ": the output logits grow" if head else ""
        advice = (
            "add a z-loss of weight 1e-4, or weight decay on the head (an optimizer reset and no "
            "weight decay were tried in vain)"
            if head
            else "log the norm of the head and log_z: output logits that grow do this, and a "
            "z-loss of weight 1e-4 holds them"
        )
        return finding(
            "SCH002",
            f"the loss rises while the learning rate falls: {self.lowest:.4g} nats at step "
            f"{self.lowest_step}, {mean:.4g} now ({rise:+.2g}), with the rate at {self.rate:.3g} "
            f"of {self.lowest_rate:.3g}{growth}{flat}{logits}",
            row,
            first=self.lowest_step,
            signal="loss",
            cause="output-logits" if head else None,
            evidence={
                "lowest": self.lowest,
                "lowest_step": self.lowest_step,
                "loss": mean,
                "rise_nats": rise,
                "rate": self.rate,
                "rate_at_lowest": self.lowest_rate,
                "grown": {name: grown[name] for name in grew[:8]},
                "still": len(still),
            },
            actions=(advice, f"rewind to a checkpoint at or before step {self.lowest_step}"),
            references=("marin 8B retrospective, deeper cooldowns (marin-community/marin)",),
        )

"""A test for what no single step shows: a small step to a new level, or a slow climb.

A mean over about 16 recent records is held against one over about 96 records that ends 32 records
ago, so that a change is not at once absorbed by what it is compared with. The difference is judged
by its own spread: correlated noise, which makes sums of scores (Page 1954) cry wolf, widens that
spread and thereby the threshold. What is learned of the spread waits for 32 records, so that a
climb does not widen it before it is found; and a loss half a nat above its own lowest mean is found
however slowly it got there.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RECENT_SPAN = 16
ANCHOR_SPAN = 96
DELAY = 32
READY = 64
SPREAD_SPAN = 256
RATE_SPAN = 64
RATE_RISE = 1.02
# While the learning rate is being raised, only a climb by this much counts.
RISE_NATS = 0.5
QUARANTINE = 32
# A climb above the lowest mean must also be this many standard deviations of such a mean.
CLIMB = 10.0
THRESHOLD = 5.5
CLIP = 3.0
# Standard deviation of the difference for independent noise of standard deviation 1.
_WHITE = math.sqrt(1 / (2 * RECENT_SPAN - 1) + 1 / (2 * ANCHOR_SPAN - 1))
# For an exponential mean of absolute deviations with a threefold gain downwards.
_SPREAD_TO_SIGMA = 1.7


@dataclass(slots=True)
class ShiftTest:
    """Recent mean against an older one, fed the healthy values of the loss in order.

    Attributes:
        recent: exponential mean of the newest values.
        seen: values that entered it.
        anchor: exponential mean of values at least ``DELAY`` records old.
        anchored: values that entered it since it was last started.
        middle: mean of the difference.
        spread: mean absolute deviation of the difference from ``middle``.
        rate: exponential mean of the learning rate; 0 if none was ever given.
        rises: whether the learning rate was rising at the last record.
        lowest: lowest recent mean since the course was last started; None before it is known.
        pending: deviations that have not yet counted in ``spread``, oldest first.
    """

    recent: float = 0.0
    seen: int = 0
    anchor: float = 0.0
    anchored: int = 0
    middle: float = 0.0
    spread: float = 0.0
    rate: float = 0.0
    rises: bool = False
    lowest: float | None = None
    pending: list[float] = field(default_factory=list)

    def spread_sigma(self, noise: float) -> float:
        """Standard deviation of the difference, given that of single values."""
        return max(self.spread * _SPREAD_TO_SIGMA, noise * _WHITE)

    def update(
        self, value: float, delayed: float | None, noise: float, rate: float | None
    ) -> tuple[float, float]:
        """Feed a value; ``(excess, score)`` of the recent level, score 1 at the threshold.

        Args:
            value: the newest value, nats, clipped to three noise units about its course.
            delayed: the value ``DELAY`` records ago, if there is one.
            noise: standard deviation of single values.
            rate: learning rate of this step, if known.
        """
        self.seen += 1
        self.recent += (value - self.recent) / min(self.seen, RECENT_SPAN)
        rises = rate is not None and self._rate_rises(rate)
        if self.rises and not rises:
            self.anchored = 0  # what the raised rate did to the level is the new course
        self.rises = rises
        if delayed is None:
            return 0.0, 0.0
        self.anchored += 1
        if self.anchored == 1:
            self.anchor = delayed
            self.middle = self.recent - self.anchor
            self.spread = noise * _WHITE
        self.anchor += (delayed - self.anchor) / min(self.anchored, ANCHOR_SPAN)
        difference = self.recent - self.anchor
        sigma = self.spread_sigma(noise)
        excess = difference - self._fall()
        deviation = min(max(difference - self.middle, -CLIP * sigma), CLIP * sigma)
        self.middle += deviation / min(self.anchored, ANCHOR_SPAN)
        self.pending.append(abs(deviation))
        while len(self.pending) > min(QUARANTINE, self.anchored // 4):
            size = self.pending.pop(0) - self.spread
            # Quicker down than up: what the steep first fall did to it must not last.
            self.spread += size / (SPREAD_SPAN if size > 0.0 else SPREAD_SPAN / 3)
        if self.anchored < READY:
            return excess, 0.0
        score = excess / (sigma * THRESHOLD)
        if rises:
            score = min(score, excess / RISE_NATS)
        self.lowest = self.recent if self.lowest is None else min(self.lowest, self.recent)
        climb = self.recent - self.lowest
        return max(excess, climb), max(score, climb / max(RISE_NATS, CLIMB * noise * _WHITE))

    def _fall(self) -> float:
        """How far below the anchor the recent mean is expected, from a fall that has lasted."""
        lasted = max(0.0, 1.0 - 2.0 * ANCHOR_SPAN / self.anchored)
        return 0.9 * lasted * min(0.0, self.middle)

    def slope(self) -> float:
        """Nats a record at which the loss has been falling; 0 if it has not, or not for long."""
        if self.anchored < READY:
            return 0.0
        return min(0.0, self.middle) / (DELAY + ANCHOR_SPAN - RECENT_SPAN)

    def _rate_rises(self, rate: float) -> bool:
        if not 0.0 <= rate < math.inf:
            return False
        if self.rate == 0.0:
            self.rate = rate
        rises = rate > self.rate * RATE_RISE
        self.rate += (rate - self.rate) / RATE_SPAN
        return rises

    def back(self, level: float) -> None:
        """An incident ended with the loss back at ``level``: the old comparison goes on."""
        self.recent = level
        # Where it came back to shows how far it still falls: a fall that has ended is over.
        self.middle = max(self.middle, level - self.anchor)
        self.pending.clear()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "ShiftTest":
        """Rebuild from :meth:`state_dict`."""
        return cls(**{**state, "pending": list(state["pending"])})

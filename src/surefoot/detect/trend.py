"""A test for a shift on a course that falls: the recent mean against where the fall was leading.

A mean over long stretches hides a shift that is smaller than the fall in between. Here the means of
two past stretches give the slope of the loss over the logarithm of the step; a training loss is a
falling, convex function of it, nearly straight, so that the line carried on errs to the low side by
little, and what it errs by is learned. The slope is taken one standard error flatter than it is
measured: noise alone makes no fall. How far the difference strays in a healthy run is measured in
units of what independent noise would give, so that correlated noise widens its own threshold.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LONGEST = 149
READY = 80
LEARN_SPAN = 128
QUARANTINE = 24
THRESHOLD = 5.3
CLIP = 3.0
BEND = 1.0  # of the fall that is carried on: all of it may be missing where the course bends
FIRST_SCALE = 2.0
_MEAN_ABS_TO_SIGMA = 1.2533


@dataclass(slots=True)
class TrendTest:
    """Fed the healthy values of the loss in order.

    Attributes:
        count: values so far.
        total: sum of all values.
        place: sum of the logarithms of their steps.
        sums: both sums as they were up to each of the newest values.
        judged: differences learned.
        middle: mean of the difference, in units of independent noise.
        scale: its standard deviation, in the same units.
        pending: differences that have not yet been learned.
        level: where the recent mean was expected.
        fall: nats a unit of the logarithm of the step, at most 0.
    """

    count: int = 0
    total: float = 0.0
    place: float = 0.0
    sums: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LONGEST))
    judged: int = 0
    middle: float = 0.0
    scale: float = FIRST_SCALE
    pending: deque[float] = field(default_factory=deque)
    level: float = 0.0
    fall: float = 0.0

    def update(self, step: int, value: float, noise: float) -> tuple[float, float]:
        """Feed a value; ``(excess, score)`` of the recent level, score 1 at the threshold.

        Args:
            step: of the record.
            value: the newest value, nats, clipped about its course.
            noise: standard deviation of single values, from differences of neighbours.
        """
        sums = self.sums
        if not sums:
            sums.append((self.total, self.place))
        self.count += 1
        self.total += value
        self.place += math.log(max(step, 0) + 1.0)
        sums.append((self.total, self.place))
        known = len(sums) - 1
        if known < READY:
            return 0.0, 0.0
        recent = min(max(known // 10, 5), 12)
        gap = min(known // 16, 8)
        late = min(known // 4, 40)
        early = min(known - recent - gap - late, 80)
        (end, end_u), (d, du) = sums[-1], sums[-1 - recent]
        (c, cu), (b, bu) = sums[-1 - recent - gap], sums[-1 - recent - gap - late]
        a, au = sums[-1 - recent - gap - late - early]
        now, now_u = (end - d) / recent, (end_u - du) / recent
        middle, middle_u = (c - b) / late, (cu - bu) / late
        old, old_u = (b - a) / early, (bu - au) / early
        span = max(middle_u - old_u, 1e-9)
        error = noise * math.sqrt(1.0 / late + 1.0 / early)
        fall = min(0.0, middle - old + error) / span
        ahead = (now_u - middle_u) / span
        self.fall = fall
        excess = now - middle - fall * (now_u - middle_u)
        unit = noise * math.sqrt(1.0 / recent + (1.0 + ahead) ** 2 / late + ahead**2 / early)
        standard = excess / unit
        scale = max(1.0, self.scale * (1.0 + 12.0 / (self.judged + 12)))
        beyond = standard - max(0.0, self.middle)
        self.level = now - beyond * unit
        self._learn(standard, scale)
        bend = BEND * -fall * (now_u - middle_u)
        return beyond * unit, beyond * unit / (scale * THRESHOLD * unit + bend)

    def _learn(self, standard: float, scale: float) -> None:
        pending = self.pending
        pending.append(min(max(standard, self.middle - CLIP * scale), self.middle + CLIP * scale))
        while len(pending) > QUARANTINE:
            self.judged += 1
            gain = 1.0 / min(self.judged + 16, LEARN_SPAN)
            off = pending.popleft() - self.middle
            self.middle += off * gain
            self.scale += (abs(off) * _MEAN_ABS_TO_SIGMA - self.scale) * gain

    def restart(self) -> None:
        """Another level begins: what is known of the noise is kept, the past is not."""
        self.sums.clear()
        self.pending.clear()
        self.count, self.total, self.place, self.fall = 0, 0.0, 0.0, 0.0

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        state = asdict(self)
        state["sums"] = [list(pair) for pair in self.sums]
        state["pending"] = list(self.pending)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "TrendTest":
        """Rebuild from :meth:`state_dict`."""
        values = dict(state)
        values["sums"] = deque(((v, u) for v, u in state["sums"]), maxlen=LONGEST)
        values["pending"] = deque(state["pending"])
        return cls(**values)

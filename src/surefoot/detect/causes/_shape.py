"""The shape of the loss around an incident: where it stood out, how it rose, how it ended.

Single losses are noisy, and a raised level of two noise units shows in no single one. So the
stretch that stood out is the one whose sum of (excess / noise - 1) is largest (Page 1954), and it
counts if its mean is well beyond what noise makes of so many records.
"""

import math
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median

from surefoot.detect.evidence import Evidence

CLEAR = 6.0
"""Standard deviations of its own mean from which a stretch counts."""
EDGE = 0.2
"""Share of its peak under which a record at either end does not belong to a stretch."""
FLOOR = 0.002
UNKNOWN_NOISE = 0.05
ABSURD = 50.0
YOUNG = 200
LEARNING = 3.0
"""Fall within 24 records, in noise units, beyond which a loss under its level is no news."""


class Stretch:
    """Records in which the loss stood out, ``begin`` to ``end`` (exclusive), by index."""

    def __init__(self, begin: int, end: int, values: list[float]) -> None:
        self.begin, self.end = begin, end
        self.values = values[begin:end]
        self.height = fmean(self.values)
        """Mean distance from the level, nats, above 0."""
        self.peak = max(self.values)

    def __len__(self) -> int:
        return self.end - self.begin


class LossShape:
    """What the losses before and after the onset say.

    Args:
        evidence: of the incident.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.e = evidence

    @cached_property
    def level(self) -> float | None:
        """Where the loss ran before the onset, nats."""
        before = [x for x in self.e.loss_before if math.isfinite(x)]
        if before:
            return median(before)
        facts = self.e.loss
        known = facts is not None and facts.records > 0 and math.isfinite(facts.before)
        return facts.before if known and facts is not None else None

    @cached_property
    def noise(self) -> float:
        """Spread of single losses before the onset, nats; a guess where they are few."""
        before = [x for x in self.e.loss_before if math.isfinite(x)]
        if len(before) < 4:
            return UNKNOWN_NOISE
        middle = median(before)
        return max(FLOOR, 1.4826 * median([abs(x - middle) for x in before]))

    @cached_property
    def excess(self) -> list[float]:
        """Loss above the level from the onset on; absurd and infinite values are cut at 50 nats."""
        if self.level is None:
            return []
        level = self.level
        return [
            min(max(x - level, -ABSURD), ABSURD) if math.isfinite(x) else ABSURD
            for x in self.e.loss_after
        ]

    @cached_property
    def above(self) -> Stretch | None:
        """The stretch above the level; None if the loss kept its course."""
        return _stretch(self.excess, self.noise)

    @cached_property
    def below(self) -> Stretch | None:
        """The stretch below it; None while the loss is falling fast anyway."""
        facts = self.e.loss
        young = self.e.first_step <= 2 and self.e.alarm_step - self.e.first_step <= YOUNG
        if young or (facts is not None and facts.trend < -LEARNING):
            return None
        return _stretch([-x for x in self.excess], self.noise)

    @cached_property
    def step(self) -> int | None:
        """First step of the stretch above."""
        return self.step_of(self.above)

    def step_of(self, stretch: Stretch | None) -> int | None:
        """First step of a stretch."""
        if stretch is None or stretch.begin >= len(self.e.steps_after):
            return None
        return self.e.steps_after[stretch.begin]

    @cached_property
    def sudden(self) -> bool:
        """Whether the first record of the stretch already had 60 % of its height."""
        return self.above is not None and self.above.values[0] >= 0.6 * self.above.height

    @cached_property
    def rise(self) -> int:
        """Records from the first of the stretch to 70 % of its peak."""
        if self.above is None:
            return 0
        peak = self.above.peak
        return next(i for i, x in enumerate(self.above.values) if x >= 0.7 * peak)

    @cached_property
    def back(self) -> bool:
        """Whether at least two losses after the stretch are known: it ended."""
        return self.above is not None and len(self.excess) - self.above.end >= 2

    @cached_property
    def brief(self) -> bool:
        """Whether it was one record, or so few that an aftermath of one record explains them."""
        if self.above is None or not self.back:
            return False
        high = sum(x >= 0.5 * self.above.peak for x in self.above.values)
        return len(self.above) <= 4 and high <= 1

    @cached_property
    def cliff(self) -> float | None:
        """Share of the height that went at the end of the stretch, within about one record."""
        if self.above is None or not self.back or len(self.above) < 4:
            return None
        last = median(self.above.values[-3:])
        after = median(self.excess[self.above.end : self.above.end + 3])
        return max(0.0, (last - after) / self.above.height)

    @cached_property
    def flat(self) -> bool:
        """Whether its thirds were about equally high: a plateau, no hill, no climb, no decay."""
        if self.above is None or len(self.above) < 6:
            return False
        third, values = len(self.above) // 3, self.above.values
        means = [fmean(part) for part in (values[:third], values[third:-third], values[-third:])]
        return min(means) + 2.0 * self.noise / math.sqrt(third) >= 0.6 * max(means)

    @cached_property
    def remains(self) -> bool:
        """Whether its last third was still a third as high as its first: learned, not healed."""
        if self.above is None or len(self.above) < 8:
            return False
        third = len(self.above) // 3
        first, last = fmean(self.above.values[:third]), fmean(self.above.values[-third:])
        return last >= 0.33 * first

    @cached_property
    def fades(self) -> bool:
        """Whether it came back, or is coming back, slowly: as weights heal."""
        if self.above is None or len(self.above) < 10:
            return False
        third = len(self.above) // 3
        first, last = fmean(self.above.values[:third]), fmean(self.above.values[-third:])
        slack = 2.0 * self.noise / math.sqrt(third)
        return last + slack < 0.6 * first

    @cached_property
    def turns(self) -> float | None:
        """Share of the changes from record to record that turn against the one before."""
        if self.above is None:
            return None
        values = self.excess[self.above.begin :]
        moves = [b - a for a, b in pairwise(values)]
        moves = [move for move in moves if abs(move) > 4.0 * self.noise]
        if len(moves) < 6:
            return None
        turned = sum(moves[i] * moves[i + 1] < 0.0 for i in range(len(moves) - 1))
        return turned / (len(moves) - 1)


def _stretch(values: list[float], noise: float) -> Stretch | None:
    """The stretch of values that is most clearly above 0."""
    begin, end = _largest(values, noise)
    if begin == end:
        return None
    mean = fmean(values[begin:end])
    if mean / noise * math.sqrt(end - begin) < CLEAR:
        return None
    # Once more, against a part of its own height: what lingers a little above is its aftermath.
    begin, end = _largest(values, max(noise, EDGE * max(values[begin:end])))
    return Stretch(begin, end, values)


def _largest(values: list[float], offset: float) -> tuple[int, int]:
    """Begin and end of the stretch whose sum of (value - offset) is largest."""
    best, begin, end, total, start = 0.0, 0, 0, 0.0, 0
    for index, value in enumerate(values):
        if total <= 0.0:
            total, start = 0.0, index
        total += value - offset
        if total > best:
            best, begin, end = total, start, index + 1
    return begin, end

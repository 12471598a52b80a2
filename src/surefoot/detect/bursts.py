"""A test for what lasts a few records: none of them an outlier, all of them together far out.

A corrupted region, or a rate that slipped for twenty steps, may lift the loss by three or four
noise units: too little for one record, too short for a mean over a hundred. For windows of the
newest 3, 5 and 9 records the excess over the course *as it stood before the window* is added up,
the largest of them left out, so that one loud record is not taken for a burst. What is far out for
such a sum is learned from the run itself, as for single values: noise that is correlated, or a tail
that is heavy, widens the quantiles and thereby the threshold.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

WINDOWS = (3, 5, 9)
QUARANTINE = 32
READY = 64
CLIP = 5.0
LOW, HIGH, FIRST = 4.3, 20.0, 6.0
SETTLED = 1000
STRETCH = 2.2
_ROOTS = tuple(math.sqrt(size - 1) for size in WINDOWS)
_SHARES = (0.5, 0.9, 0.99)
_NORMAL = (-0.4, 0.9, 1.9)


class Bursts:
    """Sums over short windows, each with its own tail; fed the healthy values of the loss.

    Args:
        strictness: factor on the thresholds.

    Attributes:
        count: values seen.
    """

    def __init__(self, strictness: float = 1.0) -> None:
        self.strictness = strictness
        self.count = 0
        self._values: deque[float] = deque(maxlen=WINDOWS[-1])
        self._courses: deque[float] = deque(maxlen=WINDOWS[-1])
        self._low = 0.5 * LOW * strictness  # no threshold is lower: what is below it scores 0
        self._quantiles = [list(_NORMAL) for _ in WINDOWS]
        self._pending: deque[tuple[float, ...]] = deque()

    def level(self, window: int) -> float:
        """Where the loss was expected when the newest window of that size began."""
        return self._courses[len(self._courses) - window]

    def update(self, value: float, expected: float, noise: float) -> tuple[float, int]:
        """``(score, window)``: 1 at the threshold, of the window that is furthest out.

        Args:
            value: the newest loss, nats.
            expected: where it was expected, before it was learned.
            noise: standard deviation of single values.
        """
        self.count += 1
        bound = CLIP * noise
        self._values.append(min(max(value, expected - bound), expected + bound))
        self._courses.append(expected)
        values, courses = list(self._values), self._courses
        best, window = 0.0, WINDOWS[0]
        sums = []
        for index, size in enumerate(WINDOWS):
            if len(values) < size:
                sums.append(0.0)
                continue
            # Mean excess over the course before the window, without the largest, in its own noise.
            newest = values[-size:]
            rest = sum(newest) - max(newest) - (size - 1) * courses[-size]
            total = rest / (noise * _ROOTS[index])
            sums.append(total)
            if total > self._low:
                score = total / self._threshold(index)
                if score > best:
                    best, window = score, size
        self._pending.append(tuple(sums))
        if len(self._pending) > QUARANTINE:
            self._learn(self._pending.popleft())
        return (best, window) if self.count >= READY else (0.0, window)

    def _threshold(self, index: int) -> float:
        middle, mid, high = self._quantiles[index]
        above = max(high - middle, 1e-3)
        tail = middle + above * max(above / max(mid - middle, 0.5 * above), 1.0) ** STRETCH
        low = LOW + (FIRST - LOW) * max(0.0, 1.0 - self.count / SETTLED)
        return float(min(max(tail, low), HIGH)) * self.strictness

    def _learn(self, sums: tuple[float, ...]) -> None:
        gain = 0.01 + 4.0 / (self.count + 40)
        for quantiles, total in zip(self._quantiles, sums, strict=True):
            for rank, share in enumerate(_SHARES):
                step = share if total > quantiles[rank] else share - 1.0
                quantiles[rank] += gain * step
            quantiles[1] = max(quantiles[1], quantiles[0])
            quantiles[2] = max(quantiles[2], quantiles[1])

    def leave(self) -> None:
        """An incident begins, or the loss goes on from another level: what is recent is void."""
        self._pending.clear()
        self._values.clear()
        self._courses.clear()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "strictness": self.strictness,
            "count": self.count,
            "values": list(self._values),
            "courses": list(self._courses),
            "quantiles": [list(values) for values in self._quantiles],
            "pending": [list(sums) for sums in self._pending],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Bursts":
        """Rebuild from :meth:`state_dict`."""
        bursts = cls(state["strictness"])
        bursts.count = state["count"]
        bursts._values.extend(state["values"])
        bursts._courses.extend(state["courses"])
        bursts._quantiles = [list(values) for values in state["quantiles"]]
        bursts._pending.extend(tuple(sums) for sums in state["pending"])
        return bursts

"""Where a signal was at any earlier step, in a fixed amount of memory.

A resume may go back by thousands of steps; what was due there must still be known. The trail keeps
at most :data:`LENGTH` points: when it is full every second one is dropped and the stride doubles.
The newest point is kept besides.
"""

from collections.abc import Sequence
from typing import Any

LENGTH = 64


class Trail:
    """Pairs (step, value) in increasing step, thinned with age.

    Args:
        state: what :meth:`state` gave, to go on from.
    """

    def __init__(self, state: Sequence[Any] | None = None) -> None:
        self._points: list[list[float]] = []
        self._last: tuple[int, float] | None = None
        self._stride, self._skipped = 1, 0
        if state:
            points, last, self._stride, self._skipped = state
            self._points = [list(point) for point in points]
            self._last = None if last is None else (last[0], last[1])

    def __len__(self) -> int:
        return len(self._points)

    def add(self, step: int, value: float) -> None:
        """Append a point; its step is above all before."""
        self._last = (step, value)
        self._skipped += 1
        if self._skipped >= self._stride or not self._points:
            self._skipped = 0
            self._points.append([step, value])
            if len(self._points) >= LENGTH:
                del self._points[1::2]
                self._stride *= 2

    def last(self) -> tuple[int, float] | None:
        """The newest point."""
        return self._last

    def around(self, step: int) -> tuple[tuple[int, float] | None, tuple[int, float] | None]:
        """The newest point below ``step`` and the oldest at or above it."""
        below = above = None
        for at, value in [*self._points, *([] if self._last is None else [self._last])]:
            if at < step and (below is None or at > below[0]):
                below = (int(at), value)
            if at >= step and (above is None or at < above[0]):
                above = (int(at), value)
        return below, above

    def due(self, step: int) -> float | None:
        """The value at ``step`` by linear interpolation; the last one beyond the end.

        None before the first point.
        """
        below, above = self.around(step)
        if above is not None and above[0] == step:
            return above[1]
        if below is None:
            return None
        if above is None:
            return below[1]
        share = (step - below[0]) / (above[0] - below[0])
        return below[1] + share * (above[1] - below[1])

    def forget_from(self, step: int) -> None:
        """Forget ``step`` and what came after it."""
        self._points = [point for point in self._points if point[0] < step]
        if self._last is not None and self._last[0] >= step:
            below = self._points[-1] if self._points else None
            self._last = None if below is None else (int(below[0]), below[1])

    def state(self) -> list[Any]:
        """All state, as JSON values."""
        points = [list(point) for point in self._points]
        last = None if self._last is None else list(self._last)
        return [points, last, self._stride, self._skipped]

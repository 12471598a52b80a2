"""Ranges of samples left out: from position to raw index and back, by arithmetic.

A *raw index* numbers the samples of the order as if nothing were skipped; a *position* numbers
those that are fed, so that a run which has consumed c samples goes on at position c.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

_I = NDArray[np.int64]


class Skips:
    """A set of raw indices that are not fed.

    ::

        skips = Skips([(100, 164)])
        skips.raw([99, 100])            # 99, 164
        skips.position([99, 120, 164])  # 99, -1, 100

    Args:
        ranges: pairs (start, stop) of raw indices, stop exclusive, in any order; overlapping and
            touching ones are united, empty ones dropped.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        united: list[tuple[int, int]] = []
        for start, stop in sorted((int(a), int(b)) for a, b in ranges):
            if start < 0 or stop < start:
                raise ValueError(f"expected 0 <= start <= stop, got the range ({start}, {stop})")
            if start == stop:
                continue
            if united and start <= united[-1][1]:
                united[-1] = (united[-1][0], max(stop, united[-1][1]))
            else:
                united.append((start, stop))
        self.ranges: tuple[tuple[int, int], ...] = tuple(united)
        self._starts = np.array([a for a, _ in united], dtype=np.int64)
        self._stops = np.array([b for _, b in united], dtype=np.int64)
        # skipped[k]: how many raw indices the first k ranges hold.
        self._skipped = np.concatenate([[0], np.cumsum(self._stops - self._starts)]).astype(
            np.int64
        )

    def raw(self, position: ArrayLike) -> _I:
        """The raw index fed at each position."""
        at = np.asarray(position, dtype=np.int64)
        # In positions, range k begins where it starts less all that was skipped before it.
        passed = np.searchsorted(self._starts - self._skipped[:-1], at, side="right")
        return np.asarray(at + self._skipped[passed], dtype=np.int64)

    def position(self, raw: ArrayLike) -> _I:
        """The position at which each raw index is fed; -1 where it is skipped."""
        index = np.asarray(raw, dtype=np.int64)
        passed = np.searchsorted(self._stops, index, side="right")
        starts = np.append(self._starts, np.iinfo(np.int64).max)
        return np.where(index >= starts[passed], -1, index - self._skipped[passed])

    def raw_ranges(self, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """The raw ranges that the positions ``start .. stop - 1`` cover."""
        if stop <= start:
            return ()
        first, last = (int(i) for i in self.raw([start, stop - 1]))
        edges = [first]
        for begin, end in self.ranges:
            if first < begin <= last:
                edges += [begin, end]
        edges.append(last + 1)
        return tuple(pair for pair in pairwise(edges) if pair not in self.ranges)

    def union(self, ranges: Iterable[tuple[int, int]]) -> "Skips":
        """These and more; all are raw indices."""
        return Skips((*self.ranges, *ranges))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Skips) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __repr__(self) -> str:
        return f"Skips({list(self.ranges)})"

"""A stateless weighted interleave: which source gives item i, and which of its items that is.

The sources are the leaves of a binary tree. At a node whose left side has the share p = num / den
of its weight, floor(n p) of its first n items go left, so item j goes left just when
floor((j + 1) p) > floor(j p). All of it is integer arithmetic, exact for indices up to 2**62.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.errors import DataError

_MAX_DENOMINATOR = 2**31 - 1
"""Keeps remainder x numerator inside int64."""

_I = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Node:
    """Sources ``low .. high - 1``, split at ``middle``; num / den of the items go left."""

    low: int
    middle: int
    high: int
    num: int
    den: int


class Interleave:
    """Blends infinite sources by weight.

    Among the first n items every node of the tree has given its left side within 1 of its share, so
    a source among K is never more than log2(K) + 1 items away from its weight.

    ::

        blend = Interleave([0.7, 0.3])
        source, item = blend.locate([0, 1, 2, 3])   # arrays: which source, and which of its items
        assert (blend.index_of(source, item) == [0, 1, 2, 3]).all()

    Args:
        weights: positive, need not sum to 1. A float means the decimal that it prints as: 0.7 is
            7/10. A node's share is rounded to the nearest fraction with a denominator below 2**31.

    Raises:
        DataError: if a weight is not positive and finite, or so small beside the others that its
            source would never be drawn.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        if not weights:
            raise ValueError("an interleave needs at least one weight")
        for i, weight in enumerate(weights):
            if not 0 < weight < float("inf"):
                raise DataError(f"data.sources[{i}].weight = {weight}: expected a positive number")
        self.weights = tuple(weights)
        self._nodes: dict[tuple[int, int], _Node] = {}
        self._grow([Fraction(repr(w)) for w in weights], 0, len(weights))

    def _grow(self, weights: list[Fraction], low: int, high: int) -> None:
        if high - low == 1:
            return
        middle = (low + high) // 2
        left, total = sum(weights[low:middle]), sum(weights[low:high])
        share = Fraction(left / total).limit_denominator(_MAX_DENOMINATOR)
        if share in (0, 1):
            small = low if share == 0 else middle
            raise DataError(
                f"data.sources[{small}].weight = {self.weights[small]} is less than 2**-31 of the "
                "others' weights: it would never be drawn; raise it or remove the source"
            )
        self._nodes[low, high] = _Node(low, middle, high, share.numerator, share.denominator)
        self._grow(weights, low, middle)
        self._grow(weights, middle, high)

    def locate(self, index: ArrayLike) -> tuple[_I, _I]:
        """Source and number within the source, for each index of a 1-d array."""
        items = np.array(index, dtype=np.int64, ndmin=1)
        source = np.zeros(len(items), dtype=np.int64)
        self._descend(np.arange(len(items)), items, source, 0, len(self.weights))
        return source, items

    def _descend(self, rows: _I, items: _I, source: _I, low: int, high: int) -> None:
        if not rows.size:
            return
        if high - low == 1:
            source[rows] = low
            return
        node = self._nodes[low, high]
        here = items[rows]
        lefts = _floor_scale(here, node.num, node.den)
        goes_left = _floor_scale(here + 1, node.num, node.den) > lefts
        items[rows] = np.where(goes_left, lefts, here - lefts)
        self._descend(rows[goes_left], items, source, low, node.middle)
        self._descend(rows[~goes_left], items, source, node.middle, high)

    def index_of(self, source: ArrayLike, item: ArrayLike) -> _I:
        """Inverse of :meth:`locate`: the index at which a source gives its k-th item."""
        sources = np.array(source, dtype=np.int64, ndmin=1)
        index = np.array(item, dtype=np.int64, ndmin=1)
        for name in np.unique(sources):
            if not 0 <= name < len(self.weights):
                raise IndexError(f"expected a source in range({len(self.weights)}), got {name}")
            mine = sources == name
            index[mine] = self._ascend(index[mine], int(name))
        return index

    def _ascend(self, items: _I, source: int) -> _I:
        path, low, high = [], 0, len(self.weights)
        while high - low > 1:
            node = self._nodes[low, high]
            path.append(node)
            low, high = (low, node.middle) if source < node.middle else (node.middle, high)
        for node in reversed(path):
            if source < node.middle:
                # The smallest j with floor((j + 1) num / den) = k + 1.
                items = _floor_scale((items + 1), node.den, node.num, up=True) - 1
            else:
                # The smallest j with ceil((j + 1) (den - num) / den) = k + 1.
                items = _floor_scale(items, node.den, node.den - node.num)
        return items

    def prefix_counts(self, n: int) -> tuple[int, ...]:
        """How many of the first n items each source gives."""
        counts = [n] * len(self.weights)
        for node in self._nodes.values():  # parents come before their children
            total = counts[node.low]
            left = total * node.num // node.den
            counts[node.low : node.middle] = [left] * (node.middle - node.low)
            counts[node.middle : node.high] = [total - left] * (node.high - node.middle)
        return tuple(counts)


def _floor_scale(values: _I, num: int, den: int, *, up: bool = False) -> _I:
    """Floor (or ceil) of values num / den without leaving int64; num, den < 2**31."""
    whole, rest = np.divmod(values, den)
    part = rest * num
    return np.asarray(whole * num + (-(-part // den) if up else part // den), dtype=np.int64)

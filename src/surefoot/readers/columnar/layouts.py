"""Lines of one layout as a matrix of bytes: those whose separators stand at the same places."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

FEWEST = 8
"""Lines of a layout from which on the columns are worth it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Lines whose separators stand at the same places.

    Attributes:
        lines: numbers of the lines within the chunk.
        matrix: their bytes, one row a line; its width is a multiple of 8, so that eight can be
            compared at once: what stands behind ``width`` is not the line's.
        width: bytes of a line.
        bars: columns of the separators, increasing; behind them that of the line's end.
    """

    lines: "Ints"
    matrix: "Bytes"
    width: int
    bars: "Ints"


def layouts(
    data: "Bytes", starts: "Ints", ends: "Ints", separator: int
) -> tuple[list[Layout], "Ints"]:
    """The layouts with at least :data:`FEWEST` lines, and the lines that are in none of them.

    Args:
        data: the bytes of a chunk of lines.
        starts: where each line begins.
        ends: where each line ends (its line feed).
        separator: the byte between fields; lines without one are in no layout.
    """
    import numpy as np

    bars = np.flatnonzero(data == separator)
    first = np.searchsorted(bars, starts)
    counts = np.searchsorted(bars, ends) - first
    found: list[Layout] = []
    rest = [np.flatnonzero(counts == 0)]
    weights = np.random.default_rng(0).integers(1, 2**40, size=int(counts.max(initial=0)) + 2)
    for count in np.unique(counts[counts > 0]):
        lines = np.flatnonzero(counts == count)
        if len(lines) < FEWEST:
            rest.append(lines)
            continue
        at = bars[first[lines, None] + np.arange(count)] - starts[lines, None]
        at = np.concatenate((at, (ends - starts)[lines, None]), axis=1)  # the last field ends too
        _, which, sizes = np.unique(
            at @ weights[: count + 1], return_inverse=True, return_counts=True
        )
        order = np.argsort(which, kind="stable")
        for part in np.split(order, np.cumsum(sizes)[:-1]):
            like = part[(at[part] == at[part[0]]).all(axis=1)]  # a hash may lie
            if len(like) < FEWEST:
                rest.append(lines[part])
                continue
            if len(like) < len(part):
                rest.append(lines[np.setdiff1d(part, like)])
            width = int(at[like[0], -1])
            rows = rows_at(data, starts[lines[like]], width)
            found.append(Layout(lines[like], rows, width, at[like[0]]))
    return found, np.sort(np.concatenate(rest))


def rows_at(data: "Bytes", starts: "Ints", width: int) -> "Bytes":
    """The bytes from each start on, as rows whose width is rounded up to a multiple of 8."""
    import numpy as np

    padded = max(8, -(-width // 8) * 8)
    return np.lib.stride_tricks.sliding_window_view(data, padded)[starts]


def lines_of(data: bytearray) -> "tuple[Bytes, Ints, Ints]":
    """(bytes, starts, ends) of whole lines with zeros behind them (``chunks.padded``)."""
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array == 10)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    return array, starts, ends - ((ends > starts) & (array[ends - 1] == 13))


class Pattern:
    """A line and the columns in which other lines have to equal it.

    Args:
        first: the bytes of the line, as a row of :func:`rows_at`.
        width: bytes of the line.
        spans: (first column, behind the last) of the columns that may differ.
    """

    def __init__(self, first: "Bytes", width: int, spans: Iterable[tuple[int, int]] = ()) -> None:
        import numpy as np

        self.width = width
        self._words = first.copy().view(np.uint64)
        mask = np.zeros(len(first), np.uint8)
        mask[:width] = 255
        for begin, end in spans:
            mask[begin:end] = 0
        self._mask = mask.view(np.uint64)

    def alike(self, rows: "Bytes") -> "tuple[Flags, Flags]":
        """(rows that equal the line where they have to, columns in which one of those does not)."""
        import numpy as np

        unlike = rows.view(np.uint64) ^ self._words
        like: Flags = np.logical_not((unlike & self._mask).any(axis=1))
        varying = np.bitwise_or.reduce(unlike if like.all() else unlike[like], axis=0)
        return like, varying.view(np.uint8)[: self.width] != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern) or self.width != other.width:
            return NotImplemented if not isinstance(other, Pattern) else False
        same_mask = bool((self._mask == other._mask).all())
        return same_mask and not ((self._words ^ other._words) & self._mask).any()

    __hash__ = None  # type: ignore[assignment]

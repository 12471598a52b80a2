"""Lines of one layout as columns: numbers of many like lines are read at once, not one by one.

A trainer prints the same record thousands of times; only the digits differ. Lines whose separators
stand at the same places have one *layout*: taken as a matrix of bytes, the columns of a field that
hold digits in every line are read with a few numpy operations. What a layout means (which key,
which number) is asked of its first line, by the same parser that reads lines one at a time; so
both ways give the same numbers, and a line that does not fit its layout goes the slow way.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

FEWEST = 8
"""Lines of a layout from which on the columns are worth it."""

_SPACE, _PLUS, _MINUS, _DOT, _ZERO, _NINE = b" +-.09"
_E = (ord("E"), ord("e"))
_POWERS = tuple(10.0**k for k in range(23))
"""Powers of ten that a double holds exactly."""


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

    def varying(self) -> "Flags":
        """The columns whose bytes are not the same in every line."""
        import numpy as np

        words = self.matrix.view(np.uint64)
        unlike = np.bitwise_or.reduce(words ^ words[0], axis=0)
        return unlike.view(np.uint8)[: self.width] != 0

    def alike(self, fixed: "Flags") -> "Flags":
        """The lines that equal the first one in all ``fixed`` columns."""
        import numpy as np

        mask = np.zeros(self.matrix.shape[1], np.uint8)
        mask[: self.width][fixed] = 255
        words = self.matrix.view(np.uint64)
        return ~((words ^ words[0]) & mask.view(np.uint64)).any(axis=1)


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


def numbers(field: "Bytes") -> "tuple[Floats, Flags]":
    """The number in each row of a matrix of bytes, as ``float`` would read it, and where it could.

    Rows hold ``[spaces][sign]digits[.digits][E[sign]digits][spaces]``, points and exponents in the
    same columns. Results are correctly rounded: mantissas below 2^53, powers of ten up to 22.
    Other rows are flagged False.
    """
    import numpy as np

    columns = np.ascontiguousarray(field.T)  # a column of bytes is read as one stretch of memory
    count = columns.shape[1]
    constant = (columns == columns[:, :1]).all(axis=1).tolist()
    digits = ((columns - _ZERO) <= 9).all(axis=1).tolist()
    if all(constant):
        value = _one(bytes(field[0]))
        return np.full(count, np.nan if value is None else value), np.full(count, value is not None)
    part = _Part(count)
    mantissa, exponent, places = part, None, 0
    point = behind = False
    for column, same, all_digits in zip(columns, constant, digits, strict=True):
        byte = int(column[0])
        if same and byte == _DOT and not point and exponent is None:
            point = True
            part.begun = None
        elif same and byte in _E and exponent is None and part.digits:
            part = exponent = _Part(count, blanks=False)
        elif same and byte == _SPACE and part.digits and part.begun is None:
            behind = True
        elif behind:
            part.good &= column == _SPACE
        else:
            part.add(column, all_digits)
            places += int(point and exponent is None)
    good = mantissa.good & mantissa.complete() & (mantissa.value < 2**53)
    power: Any = -places
    if mantissa.digits > 18 or not mantissa.digits:
        return np.full(count, np.nan), np.zeros(count, bool)
    if exponent is not None:
        good &= exponent.good & (exponent.digits > 0) & exponent.complete()
        power = exponent.signed() - places
    value = mantissa.signed().astype(np.float64)
    if exponent is None:
        return value / _POWERS[places] if places else value, good
    good &= np.abs(power) <= 22
    scale = np.array(_POWERS)[np.minimum(np.abs(power), 22)]
    return np.where(power < 0, value / scale, value * scale), good


class _Part:
    """The digits before or behind an exponent's mark, column by column."""

    def __init__(self, count: int, *, blanks: bool = True) -> None:
        import numpy as np

        self.blanks = blanks
        self.value = np.zeros(count, np.int64)
        self.good = np.ones(count, bool)
        self.sign: Ints | None = None
        # Whether a sign or digit, and whether a digit was there; None: in every row.
        self.begun: Flags | None = np.zeros(count, bool)
        self.told: Flags | None = self.begun
        self.digits = 0

    def add(self, column: "Bytes", all_digits: bool) -> None:
        """Take the next byte of each row: a digit, or before the first one a sign or a blank."""
        import numpy as np

        if all_digits:
            self.value *= 10
            self.value += column
            self.value -= _ZERO
            self.begun = self.told = None
            self.digits += 1
            return
        number = (column >= _ZERO) & (column <= _NINE)
        if self.begun is None:
            self.good &= number
        else:
            minus = ~number & ~self.begun & (column == _MINUS)
            signed = minus | (~number & ~self.begun & (column == _PLUS))
            blank = ~number & ~self.begun & (column == _SPACE)
            self.good &= number | signed | (blank if self.blanks else False)
            if minus.any():
                self.sign = np.where(minus, -1, 1 if self.sign is None else self.sign)
            self.begun = self.begun | number | signed
            if bool(self.begun.all()):
                self.begun = None
        if self.told is not None:
            self.told = self.told | number
        self.value = self.value * 10 + np.where(number, column.astype(np.int64) - _ZERO, 0)
        self.digits += int(bool(number.any()))

    def complete(self) -> "Flags | bool":
        """Where there was a digit at all."""
        return True if self.told is None else self.told

    def signed(self) -> "Ints":
        """The whole number with its sign."""
        return self.value if self.sign is None else self.value * self.sign


def _one(text: bytes) -> float | None:
    try:
        return None if b"_" in text else float(text)
    except ValueError:
        return None


def lines_of(chunk: bytes) -> "tuple[Bytes, Ints, Ints]":
    """(bytes, starts, ends) of the lines of a chunk that ends with a line feed.

    The bytes are followed by zeros, as many as a row may reach beyond its line.
    """
    import numpy as np

    data = np.frombuffer(chunk + bytes(8), np.uint8)
    ends = np.flatnonzero(data == 10)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    return data, starts, ends - ((ends > starts) & (data[ends - 1] == 13))

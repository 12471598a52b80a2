"""Many rows at once: what a format yields in place of points where a log has millions of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows in the order of the file; says the same as a ``Point`` for each row would.

    ::

        Block(steps, {"lm loss": losses, "grad norm": norms}, rows={"grad norm": where_told})

    Attributes:
        steps: int64, of each row, as the trainer counts.
        values: the trainer's key to its numbers, float64, in the trainer's unit: one for each row,
            or one for each of ``rows[key]``. A NaN is a NaN that the trainer told.
        rows: for a key that not every row tells: the rows (0, 1, ...; increasing) that do.
        line: of the file, of the first row.
        rank: which process printed all of it; None if that is not known.
        times: seconds since 1970 of each row, NaN where not told; None if never told.
    """

    steps: "Whole"
    values: Mapping[str, "Floats"]
    rows: Mapping[str, "Whole"] = field(default_factory=dict)
    line: int = 0
    rank: int | None = None
    times: "Floats | None" = None

    def __len__(self) -> int:
        return len(self.steps)

    def __post_init__(self) -> None:
        for key, values in self.values.items():
            told = self.rows.get(key)
            expected = len(self.steps) if told is None else len(told)
            if len(values) != expected:
                raise ValueError(f"{key}: expected {expected} numbers, got {len(values)}")

    def values_of(self, row: int) -> dict[str, float]:
        """What one row tells, by key."""
        values: dict[str, float] = {}
        for key, numbers in self.values.items():
            told = self.rows.get(key)
            if told is None:
                values[key] = float(numbers[row])
                continue
            at = int(told.searchsorted(row))
            if at < len(told) and told[at] == row:
                values[key] = float(numbers[at])
        return values

    def time_of(self, row: int) -> float | None:
        """When one row was written; None if that is not told."""
        time = math.nan if self.times is None else float(self.times[row])
        return None if math.isnan(time) else time

    def keys(self) -> list[str]:
        """Keys in the order in which reading row by row meets them; those never told left out."""
        first: dict[str, int] = {}
        for key, values in self.values.items():
            if len(values):
                told = self.rows.get(key)
                first[key] = 0 if told is None else int(told[0])
        return sorted(first, key=lambda key: first[key])


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Numbers of one column of a block.

    Attributes:
        column: its name.
        rows: the rows that they are of, increasing; None for every row.
        values: in the unit of the column.
    """

    column: str
    rows: "Whole | None"
    values: "Floats"

    def within(self, begin: int, end: int) -> "Told":
        """What is of rows ``begin`` to ``end`` (excluded), counted from ``begin``."""
        if self.rows is None:
            return Told(self.column, None, self.values[begin:end])
        first, last = self.rows.searchsorted([begin, end])
        return Told(self.column, self.rows[first:last] - begin, self.values[first:last])

    def only(self, kept: Any) -> "Told":
        """What is of the rows for which the boolean array ``kept`` is true, counted anew."""
        if self.rows is None:
            return Told(self.column, None, self.values[kept])
        stay = kept[self.rows]
        return Told(self.column, (kept.cumsum() - 1)[self.rows[stay]], self.values[stay])

    def or_else(self, other: "Told") -> "Told":
        """This, and where this tells nothing the other."""
        import numpy as np

        if self.rows is None or (other.rows is None and not len(self.rows)):
            return self if self.rows is None else other
        rest = np.arange(len(other.values)) if other.rows is None else other.rows
        new = ~np.isin(rest, self.rows)
        rows = np.concatenate([self.rows, rest[new]])
        values = np.concatenate([self.values, other.values[new]])
        order = rows.argsort(kind="stable")
        return Told(self.column, rows[order], values[order])


def rises(steps: "Whole") -> list[int]:
    """Rows whose step is not above that of the row before: where a stretch of rising ones ends."""
    return [int(row) + 1 for row in (steps[1:] <= steps[:-1]).nonzero()[0]]

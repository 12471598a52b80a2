"""A table built row by row: one row for each (attempt, step), columns as wide as what was told."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surefoot.readers.spill import Spill, as_counter
from surefoot.records import is_integer_signal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars

    from surefoot.readers.blocks import Told

__all__ = ["WINDOW", "Column", "Table"]

WINDOW = 4096
"""Rows that can still be added to; a line of a rank that lags further behind opens its own row."""
MOST_ROWS = 1 << 19
MOST_CELLS = 3 << 21
"""Rows, and values, that are held in memory; more are put into a file by and by."""


class Column:
    """Values of one column and the rows they are of; ``rows`` is None while no row lacks one."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows: array[int] | None = None
        self.values = array("d")

    def spread(self, row: int) -> "array[int] | None":
        """Where the rows are to be put down, if the next value is of ``row``; None if nowhere."""
        if self.rows is None and len(self.values) != row:
            self.rows = array("q", range(len(self.values)))
        return self.rows


class Table:
    """Rows by (attempt, step); the newest :data:`WINDOW` of them can be added to.

    The first number told of a row's column stays, unless it is a placeholder (a loss of -1 that a
    rank prints which computes none); others are counted in :attr:`conflicts`.

    Rows that are closed are held in memory up to :data:`MOST_ROWS` of them, then in a temporary
    file that the finished frame maps, so that memory does not grow with the log.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.attempts = array("i")
        self.columns: dict[str, Column] = {}
        self.conflicts: dict[str, int] = {}
        self._open: OrderedDict[tuple[int, int], dict[str, float]] = OrderedDict()
        self._spill = Spill()
        self._cells = 0

    def __len__(self) -> int:
        return len(self._spill) + len(self.steps) + len(self._open)

    def value(self, attempt: int, step: int, column: str) -> float | None:
        """What a row that is still open holds in a column."""
        row = self._open.get((attempt, step))
        return None if row is None else row.get(column)

    def row(self, attempt: int, step: int) -> dict[str, float]:
        """What a row that is still open holds, by column; empty if there is no such row."""
        return dict(self._open.get((attempt, step), ()))

    def add(self, attempt: int, step: int, values: Mapping[str, float]) -> None:
        """Add numbers to the row of a step."""
        row = self._open.get((attempt, step))
        if row is None:
            self._open[attempt, step] = dict(values)
            if len(self._open) > WINDOW:
                self._close(*self._open.popitem(last=False))
            return
        for column, value in values.items():
            held = row.setdefault(column, value)
            if held == value or (math.isnan(held) and math.isnan(value)):
                continue
            if column == "loss" and held == -1.0:
                row[column] = value
            elif not (column == "loss" and value == -1.0):
                self.conflicts[column] = self.conflicts.get(column, 0) + 1

    def add_block(
        self, attempt: int, steps: "npt.NDArray[np.int64]", columns: Iterable["Told"]
    ) -> None:
        """Add rows of one attempt, whose steps rise; what is open of them is added to.

        The other open rows, but for those ahead of these, are closed: what is told of them later
        opens a row of its own.
        """
        import numpy as np

        first, last = int(steps[0]), int(steps[-1])
        shared = [s for a, s in self._open if a == attempt and first <= s <= last]
        for key in [k for k in self._open if k[0] != attempt or k[1] < first]:
            self._close(key, self._open.pop(key))
        if shared:
            both = np.isin(steps, shared)
            columns = list(columns)
            for row in both.nonzero()[0].tolist():
                cells = [column.within(row, row + 1) for column in columns]
                values = {cell.column: float(cell.values[0]) for cell in cells if len(cell.values)}
                self.add(attempt, int(steps[row]), values)
            steps, columns = steps[~both], [column.only(~both) for column in columns]
        begin, count = len(self.steps), len(steps)
        self.steps.frombytes(np.ascontiguousarray(steps, np.int64).tobytes())
        self.attempts.frombytes(np.full(count, attempt, np.int32).tobytes())
        for told in columns:
            if not len(told.values):
                continue
            column = self.columns.setdefault(told.column, Column())
            held = column.spread(begin if told.rows is None else -1)
            if held is not None:
                rows = np.arange(count) if told.rows is None else told.rows
                held.frombytes((rows + begin).astype(np.int64, copy=False).tobytes())
            column.values.frombytes(np.ascontiguousarray(told.values, np.float64).tobytes())
            self._cells += len(told.values)
        self._bounded()

    def _close(self, key: tuple[int, int], row: dict[str, float]) -> None:
        number = len(self.steps)
        self.attempts.append(key[0])
        self.steps.append(key[1])
        for name, value in row.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = Column()
            rows = column.spread(number)
            if rows is not None:
                rows.append(number)
            column.values.append(value)
        self._cells += len(row)
        if number >= MOST_ROWS or self._cells > MOST_CELLS:
            self._bounded()

    def _bounded(self) -> None:
        if len(self.steps) >= MOST_ROWS or self._cells > MOST_CELLS:
            self._spill.put(self._closed())

    def frame(self) -> "polars.DataFrame":
        """All rows: ``step`` Int64, ``attempt`` Int32, counters Int64, the rest Float64.

        A (attempt, step) that a lagging line had opened a second time is one row; what a row lacks
        is null. Values of places (``signal@place``) are columns still.
        """
        while self._open:
            self._close(*self._open.popitem(last=False))
        if not len(self._spill):
            return _once(self._closed())
        if len(self.steps):
            self._spill.put(self._closed())
        return _once(self._spill.frame())

    def _closed(self) -> "polars.DataFrame":
        """The closed rows in memory, which are then no more held here."""
        import numpy as np
        import polars as pl

        count = len(self.steps)
        made = {
            "step": pl.Series("step", np.array(self.steps, np.int64)),
            "attempt": pl.Series("attempt", np.array(self.attempts, np.int32)),
        }
        for name in list(self.columns):
            column = self.columns.pop(name)
            held = column.spread(count)
            values = np.frombuffer(column.values, np.float64)
            if held is None:
                series = pl.Series(name, values)
            else:
                rows = np.frombuffer(held, np.int64)
                full, told = np.full(count, np.nan), np.zeros(count, bool)
                full[rows], told[rows] = values, True
                series = pl.Series(name, full)
                series = series.to_frame().select(
                    pl.when(pl.Series("told", told)).then(pl.col(name)).alias(name)
                )[name]
            made[name] = as_counter(series) if is_integer_signal(name) else series
        self.steps, self.attempts, self._cells = array("q"), array("i"), 0
        return pl.DataFrame(made)


def _once(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The frame with each (attempt, step) once: of a column, the first value that was told."""
    import numpy as np
    import polars as pl

    steps, attempts = frame["step"].to_numpy(), frame["attempt"].to_numpy()
    rises = (steps[1:] > steps[:-1]) | (attempts[1:] != attempts[:-1])
    if rises.all() and (attempts[1:] >= attempts[:-1]).all():
        return frame
    order = np.lexsort((steps, attempts))
    steps, attempts = steps[order], attempts[order]
    twice = (steps[1:] == steps[:-1]) & (attempts[1:] == attempts[:-1])
    if not twice.any():
        return frame
    again = np.zeros(len(order), bool)
    again[order[1:][twice]] = True
    again[order[:-1][twice]] = True
    rest = [pl.col(c).drop_nulls().first() for c in frame.columns if c not in ("attempt", "step")]
    double = frame.filter(pl.Series(again)).group_by("attempt", "step", maintain_order=True)
    merged = double.agg(rest).select(frame.columns)
    return pl.concat([frame.filter(pl.Series(~again)), merged]).sort("attempt", "step")

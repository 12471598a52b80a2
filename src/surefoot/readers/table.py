"""A table built row by row: one row for each (attempt, step), columns as wide as what was told."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from surefoot.records import is_integer_signal

if TYPE_CHECKING:
    import polars

WINDOW = 4096
"""Rows that can still be added to; a line of a rank that lags further behind opens its own row."""


class Column:
    """Values of one column and the rows they are of; most rows of a log lack some column."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows = array("q")
        self.values = array("d")


class Table:
    """Rows by (attempt, step); the newest :data:`WINDOW` of them can be added to.

    The first number told of a row's column stays, unless it is a placeholder (a loss of -1 that a
    rank prints which computes none); others are counted in :attr:`conflicts`.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.attempts = array("l")
        self.columns: dict[str, Column] = {}
        self.conflicts: dict[str, int] = {}
        self._open: OrderedDict[tuple[int, int], dict[str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.steps) + len(self._open)

    def value(self, attempt: int, step: int, column: str) -> float | None:
        """What a row that is still open holds in a column."""
        row = self._open.get((attempt, step))
        return None if row is None else row.get(column)

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

    def _close(self, key: tuple[int, int], row: dict[str, float]) -> None:
        number = len(self.steps)
        self.attempts.append(key[0])
        self.steps.append(key[1])
        for name, value in row.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = Column()
            column.rows.append(number)
            column.values.append(value)

    def frame(self) -> "polars.DataFrame":
        """All rows: ``step`` Int64, ``attempt`` Int32, counters Int64, the rest Float64.

        A (attempt, step) that a lagging line had opened a second time is one row; what a row lacks
        is null. Values of places (``signal@place``) are columns still.
        """
        import numpy as np
        import polars as pl

        while self._open:
            self._close(*self._open.popitem(last=False))
        count = len(self.steps)
        frame = pl.DataFrame(
            {
                "step": np.frombuffer(self.steps, np.int64) if count else [],
                "attempt": np.array(self.attempts, np.int32),
            },
            schema={"step": pl.Int64, "attempt": pl.Int32},
        )
        made = []
        for name, column in self.columns.items():
            values = np.full(count, np.nan)
            rows = np.frombuffer(column.rows, np.int64)
            values[rows] = np.frombuffer(column.values, np.float64)
            missing = np.ones(count, bool)
            missing[rows] = False
            series = pl.Series(name, values)
            if missing.any():
                series = series.to_frame().select(
                    pl.when(pl.Series("m", ~missing)).then(pl.col(name)).alias(name)
                )[name]
            made.append(as_counter(series) if is_integer_signal(name) else series)
        frame = frame.with_columns(made)
        return _once(frame)


def as_counter(series: "polars.Series") -> "polars.Series":
    """Int64, if every value is whole and fits; else as it is."""
    import polars as pl

    told = series.drop_nulls()
    whole = bool((told.is_finite() & (told == told.round()) & (told.abs() < 2.0**63)).all())
    return series.cast(pl.Int64) if whole else series


def _once(frame: "polars.DataFrame") -> "polars.DataFrame":
    import polars as pl

    if not frame.select(pl.struct("attempt", "step").is_duplicated().any()).item():
        return frame
    rest = [pl.col(c).drop_nulls().first() for c in frame.columns if c not in ("attempt", "step")]
    return frame.group_by("attempt", "step", maintain_order=True).agg(rest).select(frame.columns)

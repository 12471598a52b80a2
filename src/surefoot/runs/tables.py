"""Rows as polars frames: explicit types, one union of schemas, and the winning history.

The type of a column follows from its name and never from its contents: ``step`` is Int64,
``attempt`` Int32, a counter Int64, every other scalar Float32, a list column List(Float32). A
signal that was not measured at a step is null there; NaN was measured.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from surefoot.records import CATALOGUE
from surefoot.runs.layout import PLACES, Layout, Row, is_integer

if TYPE_CHECKING:
    import polars

KEY = ("attempt", "step")


def schema(extra: Iterable[str] = ()) -> "dict[str, polars.DataType]":
    """Columns and types of a segment: every signal of the catalogue, then the ``extra`` ones.

    All of the catalogue, measured or not, so that the segments of a run agree and plain polars can
    read them together.
    """
    names = ["step", "attempt", *CATALOGUE]
    names += [name + PLACES for name, signal in CATALOGUE.items() if signal.per_place]
    names += sorted(set(extra) - set(names))
    return {name: column_type(name) for name in names}


def column_type(name: str) -> "polars.DataType":
    """The type of a column, from its name."""
    import polars as pl

    if name == "attempt":
        return pl.Int32()
    if name == "step" or is_integer(name):
        return pl.Int64()
    return pl.List(pl.Float32()) if name.endswith(PLACES) else pl.Float32()


def to_frame(rows: Sequence[Row]) -> "polars.DataFrame":
    """The table of some rows, sorted by step; only columns that one of them has."""
    import polars as pl

    by_layout: dict[Layout, list[bytes]] = {}
    for row in rows:
        by_layout.setdefault(row.layout, []).append(row.data)
    return unite(
        [_of_layout(layout, data) for layout, data in by_layout.items()] or [pl.DataFrame()]
    )


def _of_layout(layout: Layout, rows: list[bytes]) -> "polars.DataFrame":
    import polars as pl

    table = layout.unpack(rows)
    columns = []
    for name in table.dtype.names or ():
        values = np.ascontiguousarray(table[name])
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        series = pl.Series(name, values)
        columns.append(series.arr.to_list() if values.ndim == 2 else series)
    return pl.DataFrame(columns)


def unite(frames: Sequence["polars.DataFrame"]) -> "polars.DataFrame":
    """All rows of some frames, each (attempt, step) once, sorted; a missing column is null."""
    import polars as pl

    columns = dict.fromkeys(["step", "attempt"])
    columns |= dict.fromkeys(name for frame in frames for name in frame.columns)
    empty = pl.DataFrame(schema={name: column_type(name) for name in columns})
    # The cast does nothing, unless the catalogue said otherwise when the rows were written.
    typed = [f.cast({c: column_type(c) for c in f.columns}, strict=False) for f in frames]
    united = pl.concat([empty, *(f for f in typed if f.width)], how="diagonal")
    if united["attempt"].is_sorted() and bool((united["step"].diff().drop_nulls() > 0).all()):
        return united  # as nearly always: segments in order, no leftovers
    # Rows are in two places after a crash between a commit and the deletion that follows it.
    return united.unique(list(KEY), keep="first").sort(KEY)


def complete(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The frame with every column of a segment, in order."""
    import polars as pl

    columns = [
        pl.col(name) if name in frame.columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in schema(frame.columns).items()
    ]
    return frame.select(columns)


def measured(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The frame without the columns that hold nothing."""
    keep = [s.name for s in frame if s.name in ("step", "attempt") or s.null_count() < len(s)]
    return frame.select(keep)


def winning(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The rows that made the weights: each attempt up to the first step of a later one.

    The result is sorted by step, and each step is there once.
    """
    import polars as pl

    starts = frame.group_by("attempt").agg(pl.col("step").min()).sort("attempt", descending=True)
    end: int | None = None
    kept = pl.lit(False)
    for attempt, start in starts.iter_rows():
        of_attempt = pl.col("attempt") == attempt
        kept = kept | (of_attempt if end is None else of_attempt & (pl.col("step") < end))
        end = start if end is None else min(start, end)
    return frame.filter(kept).sort("step")

"""Signals of a run as arrays: what was recorded, with what was not left out.

A null in the table means "not measured at this step" and is dropped here; NaN and infinities were
measured and stay.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from surefoot.records import Run, split_name

if TYPE_CHECKING:
    import polars

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A scalar signal at the n steps where it was measured.

    Attributes:
        name: of the catalogue.
        steps: (n,) increasing.
        values: (n,), possibly non-finite.
        labels: (n,) place each value belongs to, where it is the largest of several places.
    """

    name: str
    steps: Ints
    values: Floats
    labels: tuple[str, ...] = ()
    label_of: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A per-place signal at the n steps where it was measured, for p places.

    Attributes:
        name: of the catalogue.
        steps: (n,) increasing.
        values: (n, p); NaN also where not recorded.
        recorded: (n, p).
        places: p names.
    """

    name: str
    steps: Ints
    values: Floats
    recorded: Bools
    places: tuple[str, ...]


def curve(run: Run, name: str) -> Curve | None:
    """The scalar signal ``name``; None if no step of the run has it."""
    frame = run.signals
    if "step" not in frame.columns or name not in frame.columns:
        return None
    if not (frame.schema[name].is_numeric() and frame.schema["step"].is_numeric()):
        return None
    series = frame[name]
    measured = series.is_not_null() & frame["step"].is_not_null()
    if not measured.any():
        return None
    return Curve(
        name=name,
        steps=_steps(frame["step"].filter(measured)),
        values=_values(series.filter(measured)),
    )


def grid(run: Run, name: str) -> Grid | None:
    """The per-place signal ``name``; None if no step of the run has it."""
    column = _list_column(run.signals, name)
    if column is None:
        return None
    series = run.signals[column]
    lengths = series.list.len().fill_null(0)
    measured = (lengths > 0) & run.signals["step"].is_not_null()
    if not measured.any():
        return None
    sizes = lengths.filter(measured).to_numpy().astype(np.int64)
    flat = series.filter(measured).explode()
    # Lists may differ in length (places are appended while a run goes on): cell by cell.
    row = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    values = np.full((len(sizes), int(sizes.max())), np.nan)
    values[row, place] = _values(flat)
    recorded = np.zeros(values.shape, dtype=bool)
    recorded[row, place] = flat.is_not_null().to_numpy()
    if not recorded.any():
        return None
    return Grid(
        name=name,
        steps=_steps(run.signals["step"].filter(measured)),
        values=values,
        recorded=recorded,
        places=_names(run, name, values.shape[1]),
    )


def largest(grid: Grid) -> Curve:
    """The largest value over the places at each step, with the place it belongs to.

    A non-finite value counts as the largest: it is what a reader must see.
    """
    rank = np.where(np.isnan(grid.values), np.inf, np.abs(grid.values))
    rank = np.where(grid.recorded, rank, -1.0)
    best = rank.argmax(axis=1)
    rows = np.flatnonzero(grid.recorded.any(axis=1))
    return Curve(
        name=grid.name,
        steps=grid.steps[rows],
        values=grid.values[rows, best[rows]],
        labels=grid.places,
        label_of=best[rows].astype(np.int64),
    )


def _list_column(frame: "polars.DataFrame", name: str) -> str | None:
    import polars

    if "step" not in frame.columns or not frame.schema["step"].is_numeric():
        return None
    for column, kind in frame.schema.items():
        if split_name(column)[0] == name and isinstance(kind, polars.List):
            return column if kind.inner is not None and _is_numeric(kind.inner) else None
    return None


def _is_numeric(kind: Any) -> bool:
    return bool(kind.is_numeric())


def _names(run: Run, name: str, width: int) -> tuple[str, ...]:
    known = run.places.get(name, ())[:width]
    return (*known, *(f"place {i}" for i in range(len(known), width)))


def _steps(series: "polars.Series") -> Ints:
    import polars

    steps: Ints = series.cast(polars.Int64).to_numpy()
    return steps


def _values(series: "polars.Series") -> Floats:
    import polars

    values: Floats = series.cast(polars.Float64).to_numpy()
    return values

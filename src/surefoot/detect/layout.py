"""From a record to one vector: which signals it holds, in which order, on their own scales."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.detect.courses import Index, Vector
from surefoot.detect.transforms import TINY, Kind, scaled

LARGEST = 1e12
"""A value beyond it, on its scale, says nothing; its square would not fit a float."""


@dataclass(slots=True, kw_only=True)
class Layout:
    """What records with the same names hold; built once for each set of names.

    Attributes:
        plain: scalars watched as they are.
        logs: scalars watched on a logarithmic scale.
        rates: such ones that are divided by the learning rate first.
        kinds: of the scalars, in that order.
        places: per-place signals: name, kind, number of places.
        columns: of the signals in the state, scalars first (n,).
        index: the same, a slice if they are all there are, in order.
        fresh: whether a signal may be among them that has no value yet.
    """

    plain: tuple[str, ...]
    logs: tuple[str, ...]
    rates: tuple[str, ...]
    kinds: tuple[Kind, ...]
    places: tuple[tuple[str, Kind, int], ...]
    columns: npt.NDArray[np.intp]
    index: Index
    fresh: bool = True

    def vector(
        self, values: Mapping[str, float | int], places: Mapping[str, Any], log_rate: float
    ) -> tuple[Vector, bool]:
        """The record's signals on their scales, and whether all of them are finite.

        Args:
            values: scalars of the record.
            places: per-place signals.
            log_rate: logarithm of the learning rate; NaN if none was seen.

        Returns:
            A vector (n,), NaN where a signal has no value on its scale.
        """
        log = math.log
        try:
            row: list[float] = [values[name] for name in self.plain]
            for name in self.logs:
                row.append(log(value) if (value := values[name]) > TINY else math.nan)
            for name in self.rates:
                row.append(log(value) - log_rate if (value := values[name]) > TINY else math.nan)
            vector = np.array(row, dtype=np.float64)
            total = sum(map(abs, row))
        except (TypeError, ValueError, OverflowError):
            names = (*self.plain, *self.logs, *self.rates)
            row = [
                scaled(kind, values[name], log_rate)
                for name, kind in zip(names, self.kinds, strict=True)
            ]
            vector, total = np.array(row, dtype=np.float64), math.nan
        good = total < LARGEST
        if not self.places:
            return (vector if good else _judged(vector)), good
        parts = [vector]
        for name, kind, number in self.places:
            parts.append(_placed(places[name], kind, number, log_rate))
        vector = np.concatenate(parts)
        good = good and bool(np.abs(vector).max(initial=0.0) < LARGEST)
        return (vector if good else _judged(vector)), good

    def raw(self, values: Mapping[str, Any], places: Mapping[str, Any]) -> list[float | None]:
        """The values as they were read, in the order of the columns; None for what is no number."""
        found: list[float | None] = []
        for name in (*self.plain, *self.logs, *self.rates):
            try:
                found.append(float(values[name]))
            except (TypeError, ValueError, OverflowError):
                found.append(None)
        for name, _, _ in self.places:
            found += np.asarray(places[name], dtype=np.float64).tolist()
        return found


def _judged(vector: Vector) -> Vector:
    """``vector``, NaN for what cannot be judged."""
    return np.where(np.abs(vector) < LARGEST, vector, np.nan)


def number_of(places: object) -> int:
    """Entries of a per-place signal; 0 if it is none."""
    try:
        array = np.asarray(places, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(array.size) if array.ndim == 1 else 0


def _placed(places: Sequence[float], kind: Kind, number: int, log_rate: float) -> Vector:
    array: Vector = np.asarray(places, dtype=np.float64)
    if not kind.log:
        return array
    logs = np.full(number, np.nan)
    np.log(array, out=logs, where=array > TINY)
    if kind.per_rate:
        logs -= log_rate
    return logs

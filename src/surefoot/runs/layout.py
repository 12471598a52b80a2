"""Layouts: which signals a row holds and where, so that a row is a fixed-size run of bytes.

A row is ``step`` (int64), ``attempt`` (int32), the counters (int64), the other scalars (float32)
and the lists (float32), all little-endian and without gaps. Steps with the same signals share one
layout; a few layouts alternate in a run, as some signals are sampled.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from surefoot.records import CATALOGUE, StepRecord, split_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACES = "@places"
"""Ending of a list column: ``grad_norm`` is the total, ``grad_norm@places`` one value a place."""

_KEY = struct.Struct("<qi")

LayoutKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The signals of a row.

    Attributes:
        integers: scalar counters, by catalogue name.
        floats: the other scalars.
        lists: per-place signals and the lengths of their lists.
    """

    integers: tuple[str, ...]
    floats: tuple[str, ...]
    lists: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, record: StepRecord) -> "Layout":
        """The layout of a record.

        Raises:
            ValueError: naming a signal whose name is reserved or whose list is not flat.
        """
        for name in (*record.values, *record.places):
            if name in ("step", "attempt", "") or split_name(name)[1] is not None:
                raise ValueError(f"a signal cannot be called {name!r}")
        for name, array in record.places.items():
            if np.ndim(array) != 1:
                raise ValueError(
                    f"signal {name!r}: expected one value a place, got shape {np.shape(array)}"
                )
        return cls(
            integers=tuple(name for name in record.values if is_integer(name)),
            floats=tuple(name for name in record.values if not is_integer(name)),
            lists=tuple((name, len(array)) for name, array in record.places.items()),
        )

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The numpy type of a row; its fields are named as the columns of the table."""
        fields: list[Any] = [("step", "<i8"), ("attempt", "<i4")]
        fields += [(name, "<i8") for name in self.integers]
        fields += [(name, "<f4") for name in self.floats]
        fields += [(name + PLACES, "<f4", (length,)) for name, length in self.lists]
        return np.dtype(fields)

    def pack(self, record: StepRecord) -> bytes:
        """The bytes of a row of this layout.

        Raises:
            ValueError: naming a counter that is not a whole number of 64 bits.
        """
        values = record.values
        counters = [_whole(name, values[name]) for name in self.integers]
        # Beyond float32 a finite number becomes inf, silently: that is what the table holds.
        with np.errstate(over="ignore"):
            scalars = np.array([values[name] for name in self.floats], dtype="<f4")
            lists = [np.asarray(record.places[name], dtype="<f4") for name, _ in self.lists]
        return b"".join(
            (
                _KEY.pack(record.step, record.attempt),
                struct.pack(f"<{len(counters)}q", *counters),
                scalars.tobytes(),
                *(array.tobytes() for array in lists),
            )
        )

    def unpack(self, rows: Sequence[bytes]) -> "NDArray[Any]":
        """Rows of this layout as a structured array of shape (len(rows),)."""
        return np.frombuffer(b"".join(rows), dtype=self.dtype)


class Row(NamedTuple):
    """One step's signals as bytes."""

    layout: Layout
    data: bytes

    @property
    def step(self) -> int:
        """The optimizer step."""
        return int(_KEY.unpack_from(self.data)[0])

    @property
    def attempt(self) -> int:
        """The attempt that made it."""
        return int(_KEY.unpack_from(self.data)[1])


def layout_key(record: StepRecord) -> LayoutKey:
    """What decides the layout of a record; cheap, so that layouts can be looked up."""
    places = record.places
    return tuple(record.values), tuple(places), tuple(map(len, places.values()))


def is_integer(name: str) -> bool:
    """Whether the signal is a counter (int64); uncatalogued ones are float32."""
    signal = CATALOGUE.get(name)
    return signal is not None and signal.integer


def _whole(name: str, value: float) -> int:
    whole = int(value) if -(2**63) <= value < 2**63 else None
    if whole is None or whole != value:
        raise ValueError(f"signal {name!r} is a counter: expected a whole number, got {value!r}")
    return whole

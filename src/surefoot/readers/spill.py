"""Rows of a long log put into temporary files that the finished frame maps into memory."""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.readers.arrow import Gapped

if TYPE_CHECKING:
    import polars


class Spill:
    """Pieces of one table, in their order, each with the columns it happens to have.

    A piece is written to a file and mapped; the file is removed at once, which the mapping
    outlives. What cannot be written stays in memory.
    """

    def __init__(self) -> None:
        self._pieces: list[polars.DataFrame] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def put(self, piece: "polars.DataFrame") -> None:
        """Add rows."""
        self._rows += len(piece)
        with suppress(OSError):
            piece = _mapped(piece)
        self._pieces.append(piece)

    def frame(self) -> "polars.DataFrame":
        """All rows; what a piece lacks is null. A counter that is not whole in one is in none."""
        import polars as pl

        types: dict[str, set[pl.DataType]] = {}
        for piece in self._pieces:
            for name, kind in piece.schema.items():
                types.setdefault(name, set()).add(kind)
        mixed = [name for name, kinds in types.items() if len(kinds) > 1]
        pieces = [
            piece.with_columns(pl.col(c).cast(pl.Float64) for c in mixed if c in piece.columns)
            for piece in self._pieces
        ]
        return pl.concat(pieces, how="diagonal", rechunk=False)


def as_counter(series: "polars.Series") -> "polars.Series":
    """Int64, if every value is whole and fits; else as it is."""
    import polars as pl

    told = series.drop_nulls()
    whole = bool((told.is_finite() & (told == told.round()) & (told.abs() < 2.0**63)).all())
    return series.cast(pl.Int64) if whole else series


def _mapped(piece: "polars.DataFrame") -> "polars.DataFrame":
    import numpy as np
    import polars as pl

    plans: list[tuple[str, np.dtype[Any], int, int, int]] = []
    with tempfile.NamedTemporaryFile(prefix="surefoot-", delete=False) as file:
        path = Path(file.name)
        try:
            for series in piece.iter_columns():
                missing = series.null_count()
                values = series.fill_null(0).to_numpy() if missing else series.to_numpy()
                begin = _written(file, values)
                valid = -1
                if missing:
                    told = series.is_not_null().to_numpy()
                    valid = _written(file, np.packbits(told, bitorder="little"))
                plans.append((series.name, values.dtype, begin, valid, missing))
            file.write(bytes(64))
            file.flush()
            mapped = np.asarray(np.memmap(path, np.uint8, "r"))
        finally:
            with suppress(OSError):  # a mapped file may not be removable: it is left to the system
                path.unlink()
    # A series of an array is a view of it, which keeps the mapping alive.
    views = []
    for name, kind, begin, valid, missing in plans:
        view = mapped[begin : begin + kind.itemsize * len(piece)].view(kind)
        if missing:
            bits = mapped[valid : valid + (len(piece) + 7) // 8]
            views.append(pl.Series(Gapped(view, bits, missing)).alias(name))
        else:
            views.append(pl.Series(name, view))
    return pl.DataFrame(views)


def _written(file: Any, values: Any) -> int:
    """Write an array at a multiple of 64 bytes; where it begins."""
    file.write(bytes(-file.tell() % 64))
    begin: int = file.tell()
    values.tofile(file)
    return begin

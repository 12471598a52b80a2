"""Cells to numbers: columns of polars, of numbers or of text that is numbers."""

from typing import TYPE_CHECKING

from surefoot.readers.numbers import number, size

if TYPE_CHECKING:
    import polars

    from surefoot.readers.logs._tables import Column

MOST_WORDS = 100_000
"""Different cells of one column that are looked at one by one; a column of more is text."""


def column_of(series: "polars.Series") -> "Column | None":
    """(numbers, where told) of a column of numbers, of text that is numbers, or None."""
    import polars as pl

    kind = series.dtype
    if kind == pl.Boolean or kind.is_decimal():
        series = series.cast(pl.Float64)
    elif kind == pl.String:
        return text_column(series)
    elif not kind.is_numeric():
        return None
    told = series.is_not_null().to_numpy()
    return series.cast(pl.Float64).fill_null(0.0).to_numpy(), told


def text_column(series: "polars.Series", *, decimal_comma: bool = False) -> "Column | None":
    """(numbers, where told) of cells of text; None if it holds hardly a number.

    Empty cells and words such as ``None`` tell nothing; ``NaN`` and ``inf`` are numbers.
    """
    import numpy as np
    import polars as pl

    text = series.str.strip_chars()
    if decimal_comma:
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    parsed = text.cast(pl.Float64, strict=False)
    values = parsed.fill_null(0.0).to_numpy().copy()
    told = parsed.is_not_null().to_numpy().copy()
    rest = np.flatnonzero(
        ~told
        & text.is_not_null().to_numpy()
        & (text.str.len_bytes() > 0).fill_null(False).to_numpy()
    )
    if len(rest):
        cells = text.gather(rest)
        meaning: dict[str, float | None] = {}
        for cell in cells.unique().to_list():
            if len(meaning) > MOST_WORDS:
                return None
            if len(cell) <= 40:
                found = number(cell)
                meaning[cell] = size(cell) if found is None and cell[-1:] in "Bb" else found
        for at, cell in zip(rest.tolist(), cells.to_list(), strict=True):
            found = meaning.get(cell)
            if found is not None:
                values[at], told[at] = found, True
    return (values, told) if told.any() else None

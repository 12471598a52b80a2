"""Parquet files whose columns are metrics: histories exported from trackers, tables of surefoot."""

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from surefoot.errors import LogError
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs._cells import column_of
from surefoot.readers.logs._records import step_rank
from surefoot.readers.logs._tables import Rows, known
from surefoot.readers.points import Item
from surefoot.readers.text import Source

if TYPE_CHECKING:
    import polars

MAGIC = b"PAR1"
MOST_CELLS = 500_000_000
"""Values that are read at once, 4 GB: a few megabytes may hold thousands of millions of zeros."""
PIECE = 250_000
"""Rows that are turned into numbers at once."""


class Parquet(FileFormat):
    """Columns of numbers, of whatever type; columns of text and lists are left out."""

    name = "parquet"
    title = "Parquet table"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {}

    def score(self, source: Source) -> float:
        """See the base class."""
        if not source.head.startswith(MAGIC):
            return 0.0
        import polars as pl

        file = source.file
        if file is None:
            return 0.6  # packed once more: what its columns are stands at its end
        try:
            columns = list(pl.read_parquet_schema(file))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            return 0.6
        if any(key in columns for key in source.keys.values()):
            return 0.98
        told = known([name for name in columns if step_rank(name) is None], source.keys)
        steps = any(step_rank(name) is not None for name in columns)
        return 0.97 if told and steps else 0.8 if told else 0.3

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        import polars as pl

        try:
            data: Any = source.file or io.BytesIO(source.whole())
            scanned = pl.scan_parquet(data)
            cells = scanned.select(pl.len()).collect().item() * len(scanned.collect_schema())
            if cells > MOST_CELLS:
                raise LogError(f"{source.name} holds {cells:,} values: too many to be read at once")
            frame = _numbers(pl.read_parquet(data))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            first = str(error).partition("\n")[0]
            raise LogError(f"{source.name} is cut short or no Parquet file: {first}") from None
        if not known([name for name in frame.columns if step_rank(name) is None], source.keys):
            some = ", ".join(frame.columns[:12]) or "no column of numbers"
            raise LogError(
                f"{source.name} holds no metrics that are known (its columns: {some}); "
                "name one, for example --map loss=COLUMN"
            )
        rows = Rows(source.keys.get("step"))
        for begin in range(0, len(frame), PIECE):
            piece = frame.slice(begin, PIECE)
            columns = {name: column_of(piece[name]) for name in piece.columns}
            yield from rows.take({k: c for k, c in columns.items() if c is not None}, begin + 1)


def _numbers(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The columns that may hold numbers; those of a struct as ``struct/field``."""
    import polars as pl

    columns: list[polars.Series] = []
    for series in frame.get_columns():
        if isinstance(series.dtype, pl.Struct):
            fields = series.struct.unnest()
            columns += [fields[name].alias(f"{series.name}/{name}") for name in fields.columns]
        elif isinstance(series.dtype, pl.Datetime):
            columns.append((series.dt.epoch("ms") / 1000.0).alias(series.name))
        else:
            columns.append(series)
    kept = [s for s in columns if s.dtype.is_numeric() or s.dtype in (pl.String, pl.Boolean)]
    return pl.DataFrame(kept)


FORMAT = Parquet()

"""Parquet: each row a document, read in slices of about 16 MB of text."""

from surefoot.data.sources.document import Reading, SourceFile, Texts, unreadable
from surefoot.data.sources.jsonl import missing_field
from surefoot.errors import DataError

_FIRST_ROWS = 256
_SLICE_BYTES = 1 << 24


def read_parquet(file: SourceFile, reading: Reading) -> Texts:
    """The text column, row by row; null rows give None.

    Raises:
        DataError: if the file is damaged, has no such column, or the column does not hold text.
    """
    import polars as pl

    field, rows, start = reading.text_field, _FIRST_ROWS, 0
    try:
        table = pl.scan_parquet(file.path, glob=False)
        schema = table.collect_schema()
        if field not in schema:
            raise missing_field(file.shown, field, list(schema))
        if schema[field] not in (pl.String, pl.Categorical):
            raise DataError(f"{file.shown}: the column {field!r} is {schema[field]}, expected text")
        table = table.select(pl.col(field).cast(pl.String))
        while True:
            texts = table.slice(start, rows).collect()[field]
            yield from enumerate(texts, start)
            start += len(texts)
            if len(texts) < rows:
                return
            mean = int(texts.str.len_bytes().sum() or 0) / rows
            rows = max(1, min(1 << 20, int(_SLICE_BYTES / (mean + 1))))
    except (pl.exceptions.PolarsError, OSError) as error:
        first_line = DataError(str(error).partition("\n")[0])
        raise unreadable(file.path, first_line) from None

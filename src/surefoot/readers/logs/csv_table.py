"""Tables of text: CSV, TSV, semicolons or blanks, with a header; ``step loss`` without one."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from surefoot.errors import LogError
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs import _long as long
from surefoot.readers.logs import _wandb_export as wandb_export
from surefoot.readers.logs._cells import text_column
from surefoot.readers.logs._csv_layout import LONGEST, UNNAMED, Layout, cells_of, layout_of
from surefoot.readers.logs._records import step_rank
from surefoot.readers.logs._tables import Rows, known
from surefoot.readers.points import Item, Note
from surefoot.readers.text import Source
from surefoot.readers.text.decoding import decoder, encoding_of

if TYPE_CHECKING:
    from surefoot.readers.logs._tables import Column

CHUNK = 4 << 20
"""Characters that are turned into numbers at once."""

_INDEX = (UNNAMED, "Unnamed: ")
"""How the numbers of the rows are called that pandas writes along."""


class CsvTable(FileFormat):
    """A table whose header names something known, or what the user named."""

    name = "csv"
    title = "CSV table"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {}

    def score(self, source: Source) -> float:
        """See the base class."""
        layout = layout_of(source.head, source.keys, growing=source.live)
        if layout is None:
            return 0.0
        if layout.headless:
            return 0.5
        named = wandb_export.plain_names(layout.header)
        steps = any(step_rank(name) is not None for name in named)
        if any(key in layout.header for key in source.keys.values()):
            return 0.98
        if _long(source, layout) is not None:
            return 0.9
        if not known([name for name in named if step_rank(name) is None], {}):
            return 0.3 if steps and _only_value(layout) else 0.0
        return 0.97 if steps else 0.8

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        layout = layout_of(source.head, source.keys)
        if layout is None:
            raise LogError(
                f"{source.name} is no table: its lines have no common columns of numbers"
            )
        columns = _long(source, layout)
        if columns is not None:
            yield from long.points(_cells_of(source, layout, columns))
            return
        steps = [name for name in layout.header if step_rank(name) is not None]
        if {"Name", "State"} <= set(layout.header) and not steps:
            raise LogError(
                f"{source.name} is a table of runs, a row each: export the history of one of them"
            )
        told = known([n for n in wandb_export.plain_names(layout.header)], source.keys)
        if not layout.headless and not told and (value := _only_value(layout)):
            raise LogError(
                f'{source.name} does not say what its column "{value}" is: name it, for example '
                f"--map loss={value}"
            )
        keys = wandb_export.chosen(layout.header, source.keys, source.name)
        if layout.headless:
            yield Note("facts", data={"columns_are": "step loss, by their look: no header"})
        rows = Rows(source.keys.get("step"))
        for line, text, again in _begun_anew(_pieces(source, layout), layout):
            if again:
                yield Note("resumed", line=line)
            try:
                found = _columns(text, layout, keys)
            except csv.Error as error:
                yield Note("unusable", line=line, data={"why": f"rows that are no table: {error}"})
                continue
            yield from rows.take(found, line)


def _begun_anew(
    pieces: Iterator[tuple[int, str]], layout: Layout
) -> Iterator[tuple[int, str, bool]]:
    """The pieces, parted where the header stands again: a trainer started anew wrote it."""
    names = list(layout.header)
    for line, text in pieces:
        at, again = line, False
        rows = text.split("\n") if not layout.headless and names[0] in text else []
        breaks = [
            n
            for n, row in enumerate(rows)
            if names[0] in row and cells_of(row, layout.separator) == names
        ]
        begin = 0
        for end in breaks:
            if end > begin:
                yield at, "\n".join(rows[begin:end]) + "\n", again
            begin, at, again = end + 1, line + end + 1, True
        yield at, "\n".join(rows[begin:]) if breaks else text, again


def _only_value(layout: Layout) -> str | None:
    """The column of a table with but one beside the step and the clock, as TensorBoard exports."""
    rest = [
        name
        for name in layout.header
        if step_rank(name) is None and name.lower() not in ("wall time", "time", "timestamp")
    ]
    return rest[0] if len(rest) == 1 and rest[0].lower() in ("value", "y", "scalar") else None


def _pieces(source: Source, layout: Layout) -> Iterator[tuple[int, str]]:
    """(number of the first line, text) of pieces of whole lines, without the header."""
    decode = decoder(encoding_of(source.head)).decode
    held, line, skip, size = [""], 1, layout.lines, 0
    pending_return = ""
    for chunk in source.chunks():
        text = pending_return + decode(chunk)
        pending_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r") if pending_return else text
        held.append(text.replace("\r\n", "\n").replace("\r", "\n"))
        size += len(text)
        if size < CHUNK:
            continue
        whole = "".join(held)
        end = whole.rfind("\n") + 1
        if whole.count('"', 0, end) % 2:  # within a quoted cell: it begins at the last quote
            end = whole.rfind("\n", 0, whole.rfind('"', 0, end)) + 1
        if end <= 0 and size < 16 * CHUNK:
            continue
        end = end or len(whole)
        piece, held = whole[:end], [whole[end:]]
        size = len(held[0])
        count = piece.count("\n")
        piece, begun = _without(piece, max(0, skip - line + 1)), max(line, skip + 1)
        line += count
        if piece.strip():
            yield begun, piece
    piece = _without("".join([*held, decode(b"", True)]), max(0, skip - line + 1))
    if piece.strip():
        yield max(line, skip + 1), _without_cut(piece, layout)


def _without(text: str, lines: int) -> str:
    """The text without its first lines."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if not at:
            return ""
    return text[at:]


def _without_cut(text: str, layout: Layout) -> str:
    """The last lines of a file; of a last one that is cut, the cell in which it is cut is lost."""
    if text.endswith("\n"):
        return text
    head, newline, last = text.rpartition("\n")
    cells = cells_of(last, layout.separator)
    if len(cells) >= len(layout.header):
        return text
    separator = "\t" if layout.separator == " " else layout.separator
    return head + newline + separator.join(cells[:-1])


def _rows(text: str, layout: Layout) -> list[list[str]]:
    """The cells of a piece, without comments and lines that are too long to be a row."""
    if len(text) > LONGEST:
        text = "\n".join(line for line in text.split("\n") if len(line) <= LONGEST)
    if layout.separator == " ":
        cells = [line.split() for line in text.split("\n")]
    else:
        cells = list(
            csv.reader(io.StringIO(text), delimiter=layout.separator, skipinitialspace=True)
        )
    if "#" in text:
        cells = [row for row in cells if row and not row[0].lstrip().startswith("#")]
    return cells


def _long(source: Source, layout: Layout) -> long.Columns | None:
    """The columns of a table of one number a row."""
    columns = long.columns_of(layout.header, source.keys.get("step"))
    if columns is None or any(
        key in layout.header for k, key in source.keys.items() if k != "step"
    ):
        return None
    return columns if long.is_long(layout.sample, layout.header, columns) else None


def _cells_of(
    source: Source, layout: Layout, names: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    at = [layout.header.index(name) for name in names]
    for _, text in _pieces(source, layout):
        try:
            rows = _rows(text, layout)
        except csv.Error:
            return
        for row in rows:
            if len(row) > max(at):
                yield row[at[0]].strip(), row[at[1]].strip(), row[at[2]].strip()


def _columns(text: str, layout: Layout, keys: Mapping[str, str]) -> dict[str, "Column"]:
    """The columns of a piece that hold numbers; rows without any cell are left out."""
    import polars as pl

    cells = _rows(text, layout)
    width = len(layout.header)
    if set(map(len, cells)) != {width}:
        cells = [[*row[:width], *[""] * (width - len(row))] for row in cells if row]
    found = {}
    for name, column in zip(layout.header, zip(*cells, strict=True), strict=False):
        if name in keys and not name.startswith(_INDEX):
            series = pl.Series(name, column, dtype=pl.String)
            numbers = text_column(series, decimal_comma=layout.decimal_comma)
            if numbers is not None:
                found[keys[name]] = numbers
    return found


FORMAT = CsvTable()

"""How a table of text is written: its separator, its header, its decimal mark, at a look."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from surefoot.readers.logs._records import step_rank
from surefoot.readers.logs._tables import known
from surefoot.readers.numbers import number
from surefoot.readers.text.decoding import decoder, encoding_of

SAMPLE = 60
"""Rows by which a table is judged."""
LONGEST = 100_000
"""Characters of a line that may be a row; what damage left may be longer."""

_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+(?:[eE][-+]?\d+)?")
_DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is written.

    Attributes:
        header: names of the columns, each once.
        separator: between cells; a blank stands for any number of blanks and tabs.
        decimal_comma: numbers are written ``2,345``.
        lines: of the file, up to and with the header.
        headless: there is no header; the names are made up.
        sample: cells of the first rows.
    """

    header: tuple[str, ...]
    separator: str
    decimal_comma: bool = False
    lines: int = 0
    headless: bool = False
    sample: tuple[tuple[str, ...], ...] = ()


def layout_of(head: bytes, said: Mapping[str, str], *, growing: bool = False) -> Layout | None:
    """The layout of a table from its first bytes; None if it is none.

    A header alone is enough where the table is ``growing`` and its columns are well known.
    """
    encoding = encoding_of(head)
    text = decoder(encoding).decode(head).lstrip("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) > 1 and len(head) >= 1024:
        lines.pop()  # it may be cut
    first = next((line.lstrip() for line in lines if line.strip()), "")
    if first[:1] in ("{", "["):
        return None
    shown = [
        (at, line)
        for at, line in enumerate(lines[: SAMPLE * 4], 1)
        if line.strip() and len(line) <= LONGEST
    ]
    beside = ("#", "sep=")  # what Excel is told stands before the header
    data = [(at, line) for at, line in shown if not line.lstrip().startswith(beside)]
    data = data[: SAMPLE + 1]
    comments = [(at, line) for at, line in shown if line.lstrip().startswith("#")]
    if len(data) == 1 and growing:
        header = cells_of(data[0][1], ",")
        steps = any(step_rank(name) is not None for name in header)
        if steps and known(header, said) and all(number(name) is None for name in header):
            return Layout(_once(header), ",", lines=data[0][0])
    if len(data) < 2 and not (data and comments):
        return None
    for separator in (",", "\t", ";", " "):
        layout = _try(separator, data, comments, said)
        if layout is not None:
            return layout
    return None


def _try(
    separator: str,
    data: Sequence[tuple[int, str]],
    comments: Sequence[tuple[int, str]],
    said: Mapping[str, str],
) -> Layout | None:
    cells = _sample(data, separator)
    at, header, body = data[0][0], cells[0], cells[1:]
    if all(number(cell) is not None for cell in header):
        above = [(n, line) for n, line in comments if n < data[0][0]]
        names = cells_of(above[-1][1].lstrip("# "), separator) if above else []
        if len(names) != len(header) or any(number(name) is not None for name in names):
            return _headless(separator, cells)
        at, header, body = above[-1][0], names, cells
    if len(header) < 2 or not body or sum(number(cell) is not None for cell in header):
        return None
    if max(map(len, header)) > 300 or any(n.count("(") != n.count(")") for n in header):
        return None
    body = body[:-1] if len(body[-1]) < len(header) and len(body) > 1 else body
    if sum(len(row) == len(header) for row in body) < 0.7 * len(body):
        return None
    comma = separator != "," and _has_decimal_comma(body)
    numeric = sum(any(_number(cell, comma) is not None for cell in row) for row in body)
    if numeric < 0.7 * len(body):
        return None
    if separator == " " and not known(header, said):
        return None
    sample = tuple(tuple(row) for row in body)
    return Layout(_once(header), separator, comma, at, sample=sample)


def _headless(separator: str, cells: Sequence[Sequence[str]]) -> Layout | None:
    """``1 8.04`` / ``2 7.75`` / ...: whole numbers that rise, beside ones that are not whole."""
    rows = [[number(cell) for cell in row] for row in cells]
    if len(rows) < 3 or any(len(row) != 2 for row in rows[:-1]):
        return None
    rows = [row for row in rows if len(row) == 2]
    steps = [row[0] for row in rows]
    if any(step is None or step != step or step != int(step) for step in steps[:-1]):
        return None
    if any(b is None or a is None or b <= a for a, b in pairwise(steps[:-1])):
        return None
    values = [row[1] for row in rows]
    points = sum("." in row[1] or "n" in row[1].lower() for row in cells if len(row) == 2)
    if any(value is None for value in values[:-1]) or points < 0.5 * len(rows):
        return None
    return Layout(("step", "loss"), separator, headless=True)


def cells_of(line: str, separator: str) -> list[str]:
    """The cells of one row."""
    if separator == " ":
        return line.split()
    return _sample([(0, line)], separator)[0]


def _sample(data: Sequence[tuple[int, str]], separator: str) -> list[list[str]]:
    """Cells of the first rows; a quoted cell may hold line ends."""
    lines = [line for _, line in data]
    if separator == " ":
        return [line.split() for line in lines]
    try:
        rows = list(
            csv.reader((f"{x}\n" for x in lines), delimiter=separator, skipinitialspace=True)
        )
    except csv.Error:
        rows = []
    return [[cell.strip() for cell in row] for row in rows if row] or [[""]]


def _number(cell: str, decimal_comma: bool) -> float | None:
    if decimal_comma and _DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(".", "").replace(",", ".")
    return number(cell)


def _has_decimal_comma(body: Sequence[Sequence[str]]) -> bool:
    cells = [cell for row in body for cell in row]
    return any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) and not any(
        _DECIMAL_POINT.fullmatch(cell) for cell in cells
    )


UNNAMED = "column "
"""What columns without a name are called, before their number."""


def _once(header: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, each once; those without a name are numbered."""
    names: list[str] = []
    for at, name in enumerate(header):
        name = name or f"{UNNAMED}{at}"
        while name in names:
            name = f"{name}_2"
        names.append(name)
    return tuple(names)

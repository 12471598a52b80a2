"""A clean line of text."""

from typing import NamedTuple


class Line(NamedTuple):
    """One line, cleaned.

    Attributes:
        number: of the file's lines, from 1; pieces of a progress bar share one.
        text: without the prefix, colours and line end.
        rank: of the process that wrote it, if a prefix says so.
        time: seconds since 1970, if a prefix says so.
    """

    number: int
    text: str
    rank: int | None = None
    time: float | None = None

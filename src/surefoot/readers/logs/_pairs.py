"""Key and number pairs of free text: ``key: 1.5``, ``key=1.5``, ``key 1.5 ms | other 1,024``.

The text is taken apart token by token, once from left to right, so the time is linear in its
length whatever stands in it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from surefoot.readers.numbers import SUFFIXES, number
from surefoot.readers.text import Line

LONGEST = 32_768
"""Characters that are looked at; a record of one line is far shorter."""

_UNITS = {
    "s", "ms", "us", "sec", "secs", "second", "seconds", "min", "mins", "minutes", "h", "hr",
    "hour", "hours", "day", "days", "%", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB",
}  # fmt: skip
_SAME = {"mins": "min", "minutes": "min", "m": "min"}

_TOKEN = re.compile(
    r"""
      (?P<junk>\d++(?::\d++)++(?:[.,]\d++)? | \d{1,4}[-/]\d{1,2}[-/]\d{1,4}(?!\d))  # time, date
    | (?P<num>[-+]?(?:\d{1,3}(?:,\d{3})++(?!\d)(?:\.\d++)?
               | (?:\d++(?:\.\d*+)? | \.\d++)(?:[eE][-+]?\d++)?
               | (?:nan|NaN|NAN|inf|Inf|INF|[Ii]nfinity)(?=$|ms|[\s,;|)\]}'"%.s])))
      (?P<tail>%|[A-Za-z\u00b5]{1,8}(?:/[A-Za-z]{1,10}){0,2}|/[A-Za-z]{1,10})?
      (?=$|[\s,;|:()\[\]{}'"<>=\uff0c\u3002\u3001]|\.(?:\s|$)|/)
      (?:\s?/\s?(?P<of>\d[\d,]{0,15}+)(?![\w.]))?
      (?:\ (?P<unit>[A-Za-z]{1,7}(?:/[A-Za-z]{1,10}){0,2}|%)
         (?=$|[,;|)\]}]|\s(?!\s*[-+.]?\d)))?
    | (?P<sep>[:=\uff1a\uff1d])
    | (?P<break>[|,;\uff0c\u3001\u3002\uff1b()\[\]{}<>\t\u2502])
    | (?P<word>[^\s:=|,;()\[\]{}<>'"\uff1a\uff1d\uff0c\u3001\u3002\uff1b\u2502]++
               (?:\([A-Za-z%\u00b5/]{1,12}\))?)
    """,
    re.VERBOSE,
)
_UNIT_BEFORE_SEP = re.compile(r"\([A-Za-z%\u00b5/]{1,16}\)(?=\s?[:=\uff1a])")
_INSIDE = re.compile(r"\s{0,8}\d{1,12}(?:/\d{1,12})?\s?\]")  # Step [ 100/600]
_LETTER = re.compile(r"[^\W\d_]")


def short(line: Line, longest: int = LONGEST) -> Line:
    """The line, its text cut after ``longest`` characters: what is longer is no record."""
    return line if len(line.text) <= longest else line._replace(text=line.text[:longest])


class Pair(NamedTuple):
    """A key and its number.

    Attributes:
        key: as printed, with the unit behind it in parentheses where the log has it apart.
        value: in the printed unit; decimal suffixes (16.88K) are multiplied out.
        of: what stands behind a slash: ``100/2000`` has value 100 of 2000; else None.
        told: whether ``:`` or ``=`` stands between key and number.
        start: where the key begins.
    """

    key: str
    value: float
    of: float | None
    told: bool
    start: int


def pairs(text: str, start: int = 0) -> Iterator[Pair]:
    """The pairs of a line, from ``start`` on; numbers without a key are left out."""
    end = min(len(text), start + LONGEST)
    words: list[str] = []
    at, sep, position = start, False, start
    while position < end:
        bare = _UNIT_BEFORE_SEP.match(text, position, end) if text[position] == "(" else None
        token = bare or _TOKEN.match(text, position, end)
        if token is None:
            position += 1  # a blank, or a quote
            continue
        begin, position = position, token.end()
        if bare is not None:
            words.append(bare[0])
            continue
        kind = token.lastgroup
        if token["num"] is not None:
            read = _read(token)
            if read is not None:
                if words:
                    key = " ".join(words[-6:])
                    of = token["of"]
                    whole = number(of) if of else None
                    yield Pair(f"{key} ({read[1]})" if read[1] else key, read[0], whole, sep, at)
                words, sep = [], False
                if read[2]:
                    words, at = [read[2]], token.start("unit")
                continue
            words = [] if sep else words
            if not words:
                at = begin
            words, sep = [*words, token[0].split(" ")[0]], False
            position = begin + len(words[-1])
        elif kind == "sep":
            sep = bool(words)
        elif kind == "word":
            word = token[0]
            if not _LETTER.search(word) and word not in ("#", "%"):
                words, sep = [], False
                continue
            if sep:
                words, sep = [], False
            if not words:
                at = begin
            words.append(word)
        elif token[0] != "[" or not words or _INSIDE.match(text, position, end) is None:
            words, sep = [], False


def _read(token: re.Match[str]) -> tuple[float, str, str] | None:
    """(value, unit, a word behind that is no unit); None if the token is no number."""
    tail, unit = token["tail"] or "", token["unit"] or ""
    text, rest = token["num"], ""
    if tail and tail.upper() in SUFFIXES and tail in "KMBGTk":
        value = number(text)
        return None if value is None else (value * SUFFIXES[tail.upper()], *_of_unit(unit))
    if tail and tail not in _UNITS and "/" not in tail and tail != "m":
        return None
    value = number(text)
    if value is None:
        return None
    if tail:
        return value, _SAME.get(tail, tail), unit
    unit, rest = _of_unit(unit)
    return value, unit, rest


def _of_unit(unit: str) -> tuple[str, str]:
    if unit in _UNITS or "/" in unit:
        return _SAME.get(unit, unit), ""
    return "", unit

"""Where the numbers of a layout stand: asked of the format's parser, by the layout's first line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.readers.formats import LineFormat
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Note, Point
from surefoot.readers.text.lines import clean
from surefoot.readers.text.prefixes import Prefixes

_NUMBER = re.compile(rf"(?<![\w.])(?:{NUMBER})")
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the numbers of a layout stand: (key, first column, behind the last); key None: step."""

    fields: Sequence[tuple[Any, int, int]]
    first: Mapping[Any, float]
    stamp: tuple[int, int] | None
    rank: int | None
    facts: Sequence[Note]

    def spans(self) -> list[tuple[int, int]]:
        """Columns that may differ from line to line."""
        spans = [(begin, end) for _, begin, end in self.fields]
        return spans if self.stamp is None else [*spans, self.stamp]


def plan_of(fmt: LineFormat, raw: str, bars: Sequence[int]) -> Plan | None:
    """How the parser reads a line, as columns; None if that is not told by fixed places.

    Args:
        fmt: the format, whose parser is asked.
        raw: the line, as it is in the file.
        bars: where its separators stand, and behind them its end.
    """
    if not raw.isascii() or "\x1b" in raw or "\x08" in raw or "\r" in raw:
        return None
    (line,) = clean(0, raw, Prefixes()) or (None,)
    if line is None or not raw.endswith(line.text):
        return None
    if not fmt.wanted()(line.text):
        return None
    told = list(fmt.parser().feed(line))
    points = [item for item in told if isinstance(item, Point)]
    facts = [item for item in told if isinstance(item, Note)]
    if len(points) != 1 or points[0].evaluation or any(note.kind != "facts" for note in facts):
        return None
    point = points[0]
    offset = len(raw) - len(line.text)
    stamp = None
    if point.time is not None:
        found = _STAMP.search(raw.encode(), 0, offset)
        if found is None or Prefixes().take(0, raw[found.start() :]).time != point.time:
            return None
        stamp = (found.start(), found.end())
    wanted: list[tuple[Any, float]] = [(key, value) for key, value in point.values.items()]
    if point.step is not None:
        wanted.insert(_position(raw, bars, wanted), (None, float(point.step)))
    fields = _located(raw, bars, offset, wanted)
    if fields is None:
        return None
    return Plan(fields, dict(wanted), stamp, point.rank, facts)


def _position(raw: str, bars: Sequence[int], wanted: Sequence[tuple[Any, float]]) -> int:
    """How many values stand before the step: those of fields before the one with the iteration."""
    where = raw.find("iteration")
    before = sum(1 for bar in bars if bar < where)
    return min(before, len(wanted)) if where >= 0 else 0


def _located(
    raw: str, separators: Sequence[int], offset: int, wanted: Sequence[tuple[Any, float]]
) -> list[tuple[Any, int, int]] | None:
    """The place of each number, one after another; None if one cannot be found."""
    found: list[tuple[Any, int, int]] = []
    bars = [offset - 1, *separators]
    at = offset
    for key, value in wanted:
        for match in _NUMBER.finditer(raw, at):
            opening = max(bar for bar in bars if bar < match.start())
            label = raw[opening + 1 : match.start()].strip(" \t:=")
            told = number(match[0])
            if told != value and not (told != told and value != value):
                continue
            if label.endswith("iteration") if key is None else label.endswith(key) or label in key:
                break
        else:
            return None
        end = min((bar for bar in bars if bar >= match.end()), default=-1)
        if not label or end < 0:
            return None
        if raw[match.end() : end].strip():  # a unit, or `/ total`: text that stays the same
            end = match.end()
        begin = match.start()
        while begin > opening + 1 and raw[begin - 1] == " ":
            begin -= 1
        found.append((key, begin, end))
        at = match.end()
    return found

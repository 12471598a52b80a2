"""A log of millions of like lines, read as columns; what does not fit goes line by line.

For formats whose records are lines of ``|``-separated fields that do not depend on one another.
The outcome is that of the format's own parser: it reads the first line of every layout, and a
layout counts only if that line's numbers, each looked up at its place, are the parser's.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.readers import columns
from surefoot.readers.blocks import Block
from surefoot.readers.formats import LineFormat
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Source
from surefoot.readers.text.decoding import encoding_of
from surefoot.readers.text.lines import LONGEST, clean
from surefoot.readers.text.prefixes import Prefixes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

CHUNK = 8 << 20
THREADS = 2
_NUMBER = re.compile(rf"(?<![\w.])(?:{NUMBER})")
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


@dataclass(slots=True)
class _Part:
    """Numbers of lines of one layout: which lines, their steps (None: beside a record), values."""

    lines: "Ints"
    steps: "Ints | None"
    values: "dict[str, Floats]"
    rank: int | None
    times: "Floats | None"


@dataclass(slots=True)
class _Chunk:
    """A chunk, read: the numbers of the lines with a layout, and the lines that go one by one."""

    data: bytes
    starts: Any
    ends: Any
    parts: list[_Part] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    facts: list[tuple[int, Note]] = field(default_factory=list)


def usable(fmt: LineFormat, source: Source) -> bool:
    """Whether a file can be read so."""
    return fmt.separator is not None and not source.live and encoding_of(source.head) == "utf-8"


def items(fmt: LineFormat, source: Source) -> Iterator[Item | Block]:
    """As reading line by line, but rows of like lines come as blocks."""
    parser, wanted, number_of_lines, carried = fmt.parser(), fmt.wanted(), 0, Prefixes()
    with ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[_Chunk]] = deque()
        chunks = _chunks(source)
        more = True
        while more or waiting:
            while more and len(waiting) < THREADS:
                chunk = next(chunks, None)
                more = chunk is not None
                if chunk is not None:
                    waiting.append(pool.submit(_read, fmt, chunk))
            if waiting:
                read = waiting.popleft().result()
                slow = [
                    (index, item)
                    for index in read.rest
                    for line in clean(number_of_lines + index + 1, _text(read, index), carried)
                    if wanted(line.text)
                    for item in parser.feed(line)
                ]
                yield from _merged(
                    read, sorted([*slow, *read.facts], key=lambda p: p[0]), number_of_lines
                )
                number_of_lines += len(read.starts)
    yield from parser.finish()


def _text(chunk: _Chunk, index: int) -> str:
    raw = chunk.data[chunk.starts[index] : chunk.ends[index]]
    return raw[:LONGEST].decode("utf-8", "replace")


def _chunks(source: Source) -> Iterator[Callable[[], bytes]]:
    """Whole lines, about :data:`CHUNK` bytes at a time, each read when it is asked for."""
    path = source.file
    if path is not None:
        yield from _of_file(path)
        return
    held = b""
    for piece in source.chunks(CHUNK):
        held += piece
        cut = held.rfind(b"\n") + 1
        if cut and len(held) >= CHUNK // 4:
            yield partial(bytes, held[:cut])
            held = held[cut:]
        elif not cut and len(held) > 4 * CHUNK:
            held = held[:LONGEST]  # one endless line: what matters of it is at its beginning
    if held:
        yield partial(bytes, held + b"\n")


def _of_file(path: Path) -> Iterator[Callable[[], bytes]]:
    with open(path, "rb") as file:
        begin, size = 0, path.stat().st_size
        while begin < size:
            end = behind = min(begin + CHUNK, size)
            file.seek(end)
            while end < size and (piece := file.read(1 << 16)):
                feed = piece.find(b"\n")
                behind += len(piece) if feed < 0 else feed + 1
                if feed >= 0:
                    break
            # Of an endless line only the beginning is read.
            yield partial(_read_range, path, begin, min(behind, end + LONGEST))
            begin = behind


def _read_range(path: Path, begin: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(begin)
        data = file.read(end - begin)
    return data if data.endswith(b"\n") else data + b"\n"


def _read(fmt: LineFormat, fetch: Callable[[], bytes]) -> _Chunk:
    import numpy as np

    data = fetch()
    array, starts, ends = columns.lines_of(data)
    chunk = _Chunk(data, starts, ends)
    assert fmt.separator is not None
    found, rest = columns.layouts(array, starts, ends, ord(fmt.separator))
    slow = [_unlike(fmt, chunk, array, rest)]
    for layout in found:
        part, bad = _part(fmt, chunk, layout)
        slow.append(bad)
        if part is not None:
            chunk.parts.append(part)
    chunk.rest = np.sort(np.concatenate(slow)).tolist()
    return chunk


def _unlike(fmt: LineFormat, chunk: _Chunk, array: "Bytes", lines: "Ints") -> "Ints":
    """Of lines without a layout those that may tell something: not the many that are equal."""
    import numpy as np

    lengths = (chunk.ends - chunk.starts)[lines]
    keep = [lines[:0]]
    for length in np.unique(lengths):
        of_length = lines[lengths == length]
        if length == 0:
            continue
        if len(of_length) < columns.FEWEST:
            keep.append(of_length)
            continue
        first = _text(chunk, int(of_length[0]))
        told = [i for line in clean(0, first, Prefixes()) for i in fmt.parser().feed(line)]
        if told:
            keep.append(of_length)
            continue
        rows = columns.rows_at(array, chunk.starts[of_length], int(length))
        like = columns.Layout(of_length, rows, int(length), of_length[:0])
        keep.append(of_length[~like.alike(np.ones(int(length), bool))])
    return np.concatenate(keep)


def _part(fmt: LineFormat, chunk: _Chunk, layout: columns.Layout) -> "tuple[_Part | None, Ints]":
    """The numbers of a layout's lines, and the lines that have to be read one by one."""
    import numpy as np

    plan = _plan(fmt, chunk, layout)
    if plan is None:
        return None, layout.lines
    good = np.ones(len(layout.lines), bool)
    varying = layout.varying()
    fixed = np.ones(layout.width, bool)
    values: dict[Any, Any] = {}
    for key, begin, end in plan.fields:
        fixed[begin:end] = False
        if varying[begin:end].any():
            values[key], told = columns.numbers(layout.matrix[:, begin:end])
            good &= told
        else:
            values[key] = np.full(len(good), plan.first[key])
    times = None
    if plan.stamp is not None:
        begin, end = plan.stamp
        times, told = _times(layout.matrix[:, begin:end])
        good &= told
        fixed[begin:end] = False
    if (fixed & varying).any():
        good &= layout.alike(fixed)
    steps = values.pop(None, None)
    if not good[0] or not good.any():
        return None, layout.lines
    if plan.facts:
        chunk.facts += [(int(layout.lines[0]), note) for note in plan.facts]
    lines = layout.lines[good]
    return (
        _Part(
            lines=lines,
            steps=None if steps is None else steps[good].astype(np.int64),
            values={key: column[good] for key, column in values.items()},
            rank=plan.rank,
            times=None if times is None else times[good],
        ),
        layout.lines[~good],
    )


@dataclass(slots=True)
class _Plan:
    """Where the numbers of a layout stand: (key, first column, behind the last); key None: step."""

    fields: list[tuple[Any, int, int]]
    first: dict[Any, float]
    stamp: tuple[int, int] | None
    rank: int | None
    facts: list[Note]


def _plan(fmt: LineFormat, chunk: _Chunk, layout: columns.Layout) -> _Plan | None:
    """How the parser reads the first line, as columns; None if it is not told by fixed places."""
    raw = _text(chunk, int(layout.lines[0]))
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
        wanted.insert(_position(raw, layout, point.step, wanted), (None, float(point.step)))
    fields = _located(raw, layout, offset, wanted)
    if fields is None:
        return None
    return _Plan(fields, dict(wanted), stamp, point.rank, facts)


def _position(raw: str, layout: columns.Layout, step: int, wanted: list[tuple[Any, float]]) -> int:
    """How many values stand before the step: those of fields before the one with the iteration."""
    where = raw.find("iteration")
    before = sum(1 for bar in layout.bars if bar < where)
    return min(before, len(wanted)) if where >= 0 else 0


def _located(
    raw: str, layout: columns.Layout, offset: int, wanted: list[tuple[Any, float]]
) -> list[tuple[Any, int, int]] | None:
    """The place of each number, one after another; None if one cannot be found."""
    found: list[tuple[Any, int, int]] = []
    bars = [offset - 1, *(int(bar) for bar in layout.bars)]
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


def _times(stamps: "npt.NDArray[np.uint8]") -> "tuple[Floats, npt.NDArray[np.bool_]]":
    """Seconds since 1970 of date and time in fixed columns, and where they are such."""
    import numpy as np

    shape = np.frombuffer(b"0000-00-00T00:00:00", np.uint8)
    clock = stamps[:, :19].copy()
    digits = shape == ord("0")
    good = ((clock[:, digits] >= ord("0")) & (clock[:, digits] <= ord("9"))).all(axis=1)
    good &= (clock[:, 4] == ord("-")) & (clock[:, 7] == ord("-"))
    good &= (clock[:, 13] == ord(":")) & (clock[:, 16] == ord(":"))
    clock[:, 10] = ord("T")
    year = clock[:, :4].astype(int) @ [1000, 100, 10, 1] - 53328
    month, day, hour, minute, second = (
        clock[:, i : i + 2].astype(int) @ [10, 1] - 528 for i in (5, 8, 11, 14, 17)
    )
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    good &= (month >= 1) & (month <= 12) & (year >= 1)
    length = lengths[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    good &= (day >= 1) & (day <= length) & (hour < 24) & (minute < 60) & (second < 60)
    # Days since 1970 by the calendar that begins in March (Howard Hinnant, days_from_civil).
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    seconds = (days * 86400 + hour * 3600 + minute * 60 + second).astype(np.float64)
    if stamps.shape[1] > 20:
        part = stamps[:, 20:]
        fraction, told = columns.numbers(part)
        good &= told
        seconds = seconds + fraction / 10.0 ** part.shape[1]
    return seconds, good


def _merged(chunk: _Chunk, slow: list[tuple[int, Item]], before: int) -> Iterator[Item | Block]:
    """The rows of the layouts as blocks, cut where something else was told, all in order."""
    import numpy as np

    parts = [*chunk.parts, *(part for part in map(_single, slow) if part is not None)]
    records = [part for part in parts if part.steps is not None]
    other = [(index, item) for index, item in slow if _single((index, item)) is None]
    if len({part.rank for part in parts}) > 1 or len(other) > 64 + len(chunk.starts) // 16:
        yield from _one_by_one(chunk, slow, before)
        return
    lines = np.concatenate([part.lines for part in records] or [np.zeros(0, np.int64)])
    order = np.argsort(lines, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    lines = lines[order]
    steps = np.concatenate([part.steps for part in records] or [lines])[order]
    told: dict[str, list[tuple[Any, Any]]] = {}
    times = np.full(len(lines), np.nan)
    at = 0
    for part in parts:
        if part.steps is not None:
            rows, own = place[at : at + len(part.lines)], slice(None)
            at += len(part.lines)
            if part.times is not None:
                times[rows] = part.times
        else:
            rows = np.searchsorted(lines, part.lines) - 1
            own = rows >= 0
            # Beside a record of the chunk before.
            other += [_row(part, int(index), before) for index in np.flatnonzero(~own)]
            rows = rows[own]
        for key, values in part.values.items():
            told.setdefault(key, []).append((rows, values[own]))
    if bool((steps[1:] > steps[:-1]).all()) and not any(_restarts(item) for _, item in other):
        # Nothing hangs on where in the chunk these were told: no cut is made for them.
        yield from (item for _, item in other if isinstance(item, Note))
        other = [(index, item) for index, item in other if not isinstance(item, Note)]
        other = [pair for pair in other if not _joins(pair[1], steps, told)]
    whole = {key: _joined(pieces) for key, pieces in told.items()}
    begin = 0
    rank = parts[0].rank if parts else None
    for index, item in sorted(other, key=lambda pair: pair[0]):
        end = int(np.searchsorted(lines, index))
        if end > begin:
            yield _block(steps, whole, times, lines, begin, end, rank, before)
            begin = end
        yield item
    if len(lines) > begin:
        yield _block(steps, whole, times, lines, begin, len(lines), rank, before)


def _restarts(item: Item) -> bool:
    return isinstance(item, Note) and item.kind in ("resumed", "update_skipped")


def _joins(item: Item, steps: Any, told: dict[str, list[tuple[Any, Any]]]) -> bool:
    """Put a validation result beside the record of its step, if the chunk has one."""
    import numpy as np

    if not isinstance(item, Point) or item.step is None or not item.evaluation:
        return False
    row = int(np.searchsorted(steps, item.step))
    if row == len(steps) or steps[row] != item.step:
        return False
    for key, value in item.values.items():
        told.setdefault(key, []).append((np.array([row]), np.array([value])))
    return True


def _single(told: tuple[int, Item]) -> _Part | None:
    """A training point that was read by itself, as a part of one line; None for all else."""
    import numpy as np

    index, item = told
    if not isinstance(item, Point) or item.evaluation:
        return None
    return _Part(
        lines=np.array([index]),
        steps=None if item.step is None else np.array([item.step]),
        values={key: np.array([value]) for key, value in item.values.items()},
        rank=item.rank,
        times=None if item.time is None else np.array([item.time]),
    )


def _joined(pieces: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Rows and values in order; of two values of a row the first one."""
    import numpy as np

    rows = np.concatenate([piece[0] for piece in pieces])
    values = np.concatenate([piece[1] for piece in pieces])
    if len(rows) and not (rows[1:] > rows[:-1]).all():
        rows, first = np.unique(rows, return_index=True)
        values = values[first]
    return rows, values


def _block(
    steps: Any,
    whole: Any,
    times: Any,
    lines: Any,
    begin: int,
    end: int,
    rank: int | None,
    before: int,
) -> Block:
    import numpy as np

    values: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for key, (places, numbers) in whole.items():
        first, last = np.searchsorted(places, [begin, end])
        if last == first:
            continue
        values[key] = numbers[first:last]
        if last - first < end - begin:
            rows[key] = places[first:last] - begin
    known = times[begin:end]
    return Block(
        steps=steps[begin:end],
        values=values,
        rows=rows,
        line=before + int(lines[begin]) + 1,
        rank=rank,
        times=None if np.isnan(known).all() else known,
    )


def _row(part: _Part, index: int, before: int) -> tuple[int, Item]:
    line = int(part.lines[index])
    values = {key: float(column[index]) for key, column in part.values.items()}
    return line, Point(None, values, before + line + 1, part.rank, _time(part, index))


def _time(part: _Part, index: int) -> float | None:
    return None if part.times is None else float(part.times[index])


def _one_by_one(chunk: _Chunk, slow: list[tuple[int, Item]], before: int) -> Iterator[Item]:
    """Every row as a point: where ranks are mixed, or hardly a line is like another."""
    told: list[tuple[int, Item]] = list(slow)
    for part in chunk.parts:
        for index in range(len(part.lines)):
            line, item = _row(part, index, before)
            if part.steps is not None and isinstance(item, Point):
                item.step = int(part.steps[index])
            told.append((line, item))
    for _, item in sorted(told, key=lambda pair: pair[0]):
        yield item

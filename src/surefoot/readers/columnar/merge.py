"""The numbers of a chunk's layouts, and what was told line by line, in the order of the lines."""

from collections.abc import Iterator
from typing import Any

from surefoot.readers.blocks import Block
from surefoot.readers.columnar.parts import Chunk, Part
from surefoot.readers.points import Item, Note, Point


def merged(chunk: Chunk, slow: list[tuple[int, Item]], before: int) -> Iterator[Item | Block]:
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
            rows = place[at : at + len(part.lines)]
            own = np.ones(len(rows), bool)
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
            told.setdefault(key, []).append((rows, values if own.all() else values[own]))
    if bool((steps[1:] > steps[:-1]).all()) and not any(_restarts(item) for _, item in other):
        # Nothing hangs on where in the chunk these were told: no cut is made for them.
        yield from (item for _, item in other if isinstance(item, Note))
        other = [(index, item) for index, item in other if not isinstance(item, Note)]
        other = [pair for pair in other if not _joins(pair[1], steps, told)]
    whole = {key: _joined(pieces, len(lines)) for key, pieces in told.items()}
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


def _single(told: tuple[int, Item]) -> Part | None:
    """A training point that was read by itself, as a part of one line; None for all else."""
    import numpy as np

    index, item = told
    if not isinstance(item, Point) or item.evaluation:
        return None
    return Part(
        lines=np.array([index]),
        steps=None if item.step is None else np.array([item.step]),
        values={key: np.array([value]) for key, value in item.values.items()},
        rank=item.rank,
        times=None if item.time is None else np.array([item.time]),
    )


def _joined(pieces: list[tuple[Any, Any]], count: int) -> tuple[Any, Any]:
    """Rows, increasing, and their values; of two values of one of the ``count`` rows the first."""
    import numpy as np

    whole = np.empty(count)
    told = np.zeros(count, bool)
    for rows, values in reversed(pieces):
        whole[rows] = values
        told[rows] = True
    if told.all():
        return np.arange(count), whole
    rows = np.flatnonzero(told)
    return rows, whole[rows]


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


def _row(part: Part, index: int, before: int) -> tuple[int, Item]:
    line = int(part.lines[index])
    values = {key: float(column[index]) for key, column in part.values.items()}
    return line, Point(None, values, before + line + 1, part.rank, _time(part, index))


def _time(part: Part, index: int) -> float | None:
    return None if part.times is None else float(part.times[index])


def _one_by_one(chunk: Chunk, slow: list[tuple[int, Item]], before: int) -> Iterator[Item]:
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

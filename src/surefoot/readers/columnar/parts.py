"""A chunk of lines to the numbers of its layouts, and the lines that have to go one by one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surefoot.readers.columnar.chunks import padded
from surefoot.readers.columnar.digits import numbers
from surefoot.readers.columnar.layouts import FEWEST, Pattern, layouts, lines_of, rows_at
from surefoot.readers.columnar.plan import Plan, plan_of
from surefoot.readers.columnar.stamps import times
from surefoot.readers.formats import LineFormat
from surefoot.readers.points import Note
from surefoot.readers.text.lines import LONGEST, clean
from surefoot.readers.text.prefixes import Prefixes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

MOST_PATTERNS = 16
"""Layouts of one length that are remembered."""


@dataclass(slots=True)
class Part:
    """Numbers of lines of one layout: which lines, their steps (None: beside a record), values."""

    lines: "Ints"
    steps: "Ints | None"
    values: "dict[str, Floats]"
    rank: int | None
    times: "Floats | None"


@dataclass(slots=True)
class Chunk:
    """A chunk, read: the numbers of the lines with a layout, and the lines that go one by one."""

    data: bytearray
    starts: Any
    ends: Any
    parts: list[Part] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    facts: list[tuple[int, Note]] = field(default_factory=list)

    def text(self, line: int) -> str:
        """A line as it is in the file."""
        raw = self.data[self.starts[line] : self.ends[line]]
        return raw[:LONGEST].decode("utf-8", "replace")


class ChunkReader:
    """Reads chunks of one file, in any order and several at once; knows the layouts it has met.

    Args:
        fmt: the format of the file.
    """

    def __init__(self, fmt: LineFormat) -> None:
        assert fmt.separator is not None
        self._fmt = fmt
        self._separator = ord(fmt.separator)
        self._known: dict[int, list[tuple[Pattern, Plan]]] = {}

    def read(self, fetch: Callable[[], bytearray]) -> Chunk:
        """A chunk of whole lines, which ``fetch`` reads."""
        import numpy as np

        data = fetch()
        array, starts, ends = lines_of(data)
        chunk = Chunk(data, starts, ends)
        left, slow = self._known_lines(chunk, array)
        slow += self._new_lines(chunk, array, left)
        chunk.rest = np.sort(np.concatenate(slow)).tolist()
        return chunk

    def _known_lines(self, chunk: Chunk, array: "Bytes") -> "tuple[Ints, list[Ints]]":
        """Take the lines of layouts met before: (the others, those to be read one by one)."""
        import numpy as np

        lengths = chunk.ends - chunk.starts
        narrow = lengths.astype(np.uint16) if lengths.max(initial=0) < 2**16 else lengths
        order = np.argsort(narrow, kind="stable")
        ordered = lengths[order]
        taken = np.zeros(len(lengths), bool)
        slow = [order[:0]]
        for width, patterns in list(self._known.items()):
            begin, end = np.searchsorted(ordered, [width, width + 1])
            lines = order[begin:end]
            if len(lines) < FEWEST:
                continue
            rows = rows_at(array, chunk.starts[lines], width)
            for pattern, plan in list(patterns):
                like, varying = pattern.alike(rows)
                if like.sum() < FEWEST:
                    continue
                whole = bool(like.all())
                mine, matrix = (lines, rows) if whole else (lines[like], rows[like])
                taken[mine] = True
                slow.append(self._take(chunk, plan, mine, matrix, varying))
                if whole:
                    break
                lines, rows = lines[~like], rows[~like]
        return np.flatnonzero(~taken), slow

    def _new_lines(self, chunk: Chunk, array: "Bytes", left: "Ints") -> "list[Ints]":
        """Take the lines of new layouts, known from now on; those to be read one by one."""
        starts, ends = chunk.starts[left], chunk.ends[left]
        if len(left) * 2 < len(chunk.starts):  # few: not all of the chunk is searched for them
            few = [chunk.data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
            array, starts, ends = lines_of(padded(b"".join(line + b"\n" for line in few)))
        found, rest = layouts(array, starts, ends, self._separator)
        slow = [left[self._unlike(chunk, array, starts, left, rest, ends - starts)]]
        for layout in found:
            lines = left[layout.lines]
            bars = [int(bar) for bar in layout.bars]
            plan = plan_of(self._fmt, chunk.text(int(lines[0])), bars)
            if plan is None:
                slow.append(lines)
                continue
            pattern = Pattern(layout.matrix[0], layout.width, plan.spans())
            like, varying = pattern.alike(layout.matrix)
            slow.append(lines[~like])
            whole = bool(like.all())
            mine, matrix = (lines, layout.matrix) if whole else (lines[like], layout.matrix[like])
            bad = self._take(chunk, plan, mine, matrix, varying)
            slow.append(bad)
            patterns = self._known.setdefault(layout.width, [])
            if len(bad) < len(mine) and len(patterns) < MOST_PATTERNS:
                if not any(pattern == other for other, _ in patterns):
                    patterns.append((pattern, plan))
        return slow

    def _take(
        self, chunk: Chunk, plan: Plan, lines: "Ints", rows: "Bytes", varying: "Flags"
    ) -> "Ints":
        """Read the numbers of like lines; the lines in which one could not be read."""
        import numpy as np

        good = np.ones(len(lines), bool)
        values: dict[Any, Any] = {}
        for key, begin, end in plan.fields:
            if varying[begin:end].any():
                values[key], told = numbers(rows[:, begin:end])
                good &= told
            else:
                values[key] = np.full(len(lines), plan.first[key])
        clock = None
        if plan.stamp is not None:
            clock, told = times(rows[:, slice(*plan.stamp)])
            good &= told
        chunk.facts += [(int(lines[0]), note) for note in plan.facts]
        steps = values.pop(None, None)
        whole = bool(good.all())
        kept = slice(None) if whole else good
        chunk.parts.append(
            Part(
                lines=lines[kept],
                steps=None if steps is None else steps[kept].astype(np.int64),
                values={key: column[kept] for key, column in values.items()},
                rank=plan.rank,
                times=None if clock is None else clock[kept],
            )
        )
        return lines[:0] if whole else lines[~good]

    def _unlike(
        self,
        chunk: Chunk,
        array: "Bytes",
        starts: "Ints",
        left: "Ints",
        rest: "Ints",
        sizes: "Ints",
    ) -> "Ints":
        """Of lines without a layout those that may tell something: not the many that are equal."""
        import numpy as np

        keep = [rest[:0]]
        for length in np.unique(sizes[rest]):
            some = rest[sizes[rest] == length]
            if length == 0:
                continue
            if len(some) >= FEWEST and not self._tells(chunk.text(int(left[some[0]]))):
                rows = rows_at(array, starts[some], int(length))
                some = some[~Pattern(rows[0], int(length)).alike(rows)[0]]
            keep.append(some)
        return np.concatenate(keep)

    def _tells(self, raw: str) -> bool:
        return any(
            True
            for line in clean(0, raw, Prefixes())
            if self._fmt.wanted()(line.text)
            for _ in self._fmt.parser().feed(line)
        )

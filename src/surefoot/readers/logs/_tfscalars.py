"""The scalars of an event file as arrays: records alike but for their numbers go at once."""

from typing import TYPE_CHECKING, Any

from surefoot.readers.logs._protobuf import Malformed
from surefoot.readers.logs._tfevent import Parsed, parse

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Whole = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

FEW = 8
"""Records of one length that are decoded one by one."""
MOST_SHAPES = 32
"""Layouts tried on the records of one length in one window; the rest is decoded one by one."""
LONGEST = 4096


class Scalars:
    """Takes windows of records and holds their scalars, in the order of the file at the end.

    Attributes:
        tags: tag -> its number; once :meth:`arrays` was asked for, by their first appearance.
        malformed: records that are no events.
        others: tags of which some record says that they hold something else than scalars.
    """

    def __init__(self) -> None:
        self.tags: dict[str, int] = {}
        self.malformed = 0
        self.others: set[str] = set()
        self._count = 0
        self._pieces: list[tuple[Whole, Whole, Floats, Whole, Floats]] = []

    def take(self, data: "Bytes", begins: "Whole", lengths: "Whole") -> None:
        """Decode the records of one window."""
        import numpy as np

        order = np.argsort(lengths, kind="stable")
        ends = np.flatnonzero(np.diff(lengths[order], append=-1)) + 1
        single: list[int] = []
        first = 0
        for end in ends.tolist():
            rows = order[first:end]
            first = end
            length = int(lengths[rows[0]])
            if len(rows) < FEW or length > LONGEST:
                single += rows.tolist()
            else:
                single += self._alike(data, begins, rows, length)
        self._one_by_one(data, begins, lengths, sorted(single))
        self._count += len(begins)

    def arrays(self) -> tuple["Whole", "Whole", "Floats", "Whole", "Floats"]:
        """(record, step, time, tag, value) of each scalar, in the order of the file."""
        import numpy as np

        kinds = (np.int64, np.int64, np.float64, np.int64, np.float64)
        joined: list[Any] = [
            np.concatenate([np.array([], kind), *(piece[n] for piece in self._pieces)])
            for n, kind in enumerate(kinds)
        ]
        self._pieces = []
        order = np.argsort(joined[0], kind="stable")
        if (order[1:] < order[:-1]).any():
            joined = [part[order] for part in joined]
        record, step, time, tag, value = joined
        return record, step, time, self._renumbered(tag), value

    def _renumbered(self, tag: "Whole") -> "Whole":
        import numpy as np

        numbers, firsts = np.unique(tag, return_index=True)
        by_place = numbers[np.argsort(firsts)].tolist()
        names = list(self.tags)
        self.tags = {names[old]: new for new, old in enumerate(by_place)}
        new = np.zeros(len(names), np.int64)
        new[by_place] = np.arange(len(by_place))
        return new[tag]

    def _one_by_one(
        self, data: "Bytes", begins: "Whole", lengths: "Whole", rows: list[int]
    ) -> None:
        import numpy as np

        told: list[tuple[int, int, float, int, float]] = []
        held = data.tobytes() if rows else b""
        for row in rows:
            begin = int(begins[row])
            try:
                event = parse(held, begin, begin + int(lengths[row]), self.others)
            except Malformed:
                self.malformed += 1
                continue
            for scalar in event.scalars:
                number = self._number(scalar.tag)
                told.append((self._count + row, event.step, event.time, number, scalar.value))
        if told:
            record, step, time, tag, value = zip(*told, strict=True)
            self._add(
                np.array(record), np.array(step, np.int64), np.array(time, np.float64),
                np.array(tag), np.array(value, np.float64),
            )  # fmt: skip

    def _alike(self, data: "Bytes", begins: "Whole", rows: "Whole", length: int) -> list[int]:
        """Take records of one length; those left over that must be decoded one by one."""
        import numpy as np

        view = np.lib.stride_tricks.sliding_window_view(data, length)
        matrix = view[begins[rows]]
        left = np.arange(len(rows))
        single: list[int] = []
        for _ in range(MOST_SHAPES):
            if len(left) < FEW:
                break
            event = self._parsed(matrix[left[0]])
            if event is None or not event.fixed:
                single.append(int(rows[left[0]]))
                left = left[1:]
                continue
            fixed = _fixed(event, length)
            head = np.flatnonzero(fixed[: event.first_tag])
            like = _same(matrix, left, head, matrix[left[0]]) & _steps_like(matrix, left, event)
            these, left = left[like], left[~like]
            single += self._by_tag(matrix, these, event, fixed, rows)
        single += rows[left].tolist()
        return single

    def _by_tag(
        self,
        matrix: "Bytes",
        these: "Whole",
        event: Parsed,
        fixed: "npt.NDArray[np.bool_]",
        rows: "Whole",
    ) -> list[int]:
        """Take records whose first bytes are alike, those with the same tags at once."""
        import numpy as np

        places = np.flatnonzero(fixed)
        single: list[int] = []
        mixed = _hashes(matrix, these, places)
        order = np.argsort(mixed, kind="stable")
        ends = np.flatnonzero(np.diff(mixed[order]) != 0) + 1
        for group in np.split(these[order], ends):
            first = matrix[group[0]]
            parsed = self._parsed(first)
            if parsed is None or _places(parsed) != _places(event):
                single += rows[group].tolist()
                continue
            like = _same(matrix, group, places, first)
            single += rows[group[~like]].tolist()
            self._add_alike(matrix[group[like]], rows[group[like]], parsed)
        return single

    def _add_alike(self, matrix: "Bytes", rows: "Whole", event: Parsed) -> None:
        import numpy as np

        count = len(rows)
        step = np.zeros(count, np.uint64)
        for turn, at in enumerate(range(event.step_begin, event.step_end)):
            step |= (matrix[:, at].astype(np.uint64) & np.uint64(127)) << np.uint64(7 * turn)
        time = np.full(count, np.nan)
        if event.time_begin >= 0:
            time = _column(matrix, event.time_begin, "<f8")
        for scalar in event.scalars:
            assert scalar.kind is not None
            tag = np.full(count, self._number(scalar.tag))
            value = _column(matrix, scalar.begin, scalar.kind)
            self._add(self._count + rows, step.view(np.int64), time, tag, value)

    def _add(
        self, record: "Whole", step: "Whole", time: "Floats", tag: "Whole", value: "Floats"
    ) -> None:
        self._pieces.append((record, step, time, tag, value))

    def _number(self, tag: str) -> int:
        return self.tags.setdefault(tag, len(self.tags))

    def _parsed(self, record: "Bytes") -> Parsed | None:
        raw = record.tobytes()
        try:
            return parse(raw, 0, len(raw), self.others)
        except Malformed:
            return None


def _places(event: Parsed) -> tuple[object, ...]:
    """Where the numbers of a record lie."""
    return (
        event.step_begin, event.step_end, event.time_begin,
        *((scalar.begin, scalar.kind) for scalar in event.scalars),
    )  # fmt: skip


def _fixed(event: Parsed, length: int) -> "npt.NDArray[np.bool_]":
    """Which bytes are the same in every record of this layout and these tags."""
    import numpy as np

    fixed = np.ones(length, bool)
    fixed[event.step_begin : event.step_end] = False
    if event.time_begin >= 0:
        fixed[event.time_begin : event.time_begin + 8] = False
    for scalar in event.scalars:
        assert scalar.kind is not None
        fixed[scalar.begin : scalar.begin + np.dtype(scalar.kind).itemsize] = False
    return fixed


def _same(
    matrix: "Bytes", rows: "Whole", places: "Whole", first: "Bytes"
) -> "npt.NDArray[np.bool_]":
    import numpy as np

    same = np.ones(len(rows), bool)
    for place in places.tolist():
        same &= matrix[rows, place] == first[place]
    return same


def _steps_like(matrix: "Bytes", rows: "Whole", event: Parsed) -> "npt.NDArray[np.bool_]":
    """Whether the step takes as many bytes: all but its last one have the high bit."""
    import numpy as np

    like = np.ones(len(rows), bool)
    for at in range(event.step_begin, event.step_end):
        like &= (matrix[rows, at] >= 128) == (at < event.step_end - 1)
    return like


def _hashes(matrix: "Bytes", rows: "Whole", places: "Whole") -> "npt.NDArray[np.uint64]":
    """A number for the bytes at ``places`` of each row; rows that differ may rarely share one."""
    import numpy as np

    mixed = np.zeros(len(rows), np.uint64)
    for place in places.tolist():
        mixed = (mixed ^ matrix[rows, place]) * np.uint64(0x100000001B3)
    return mixed


def _column(matrix: "Bytes", begin: int, kind: str) -> "Floats":
    import numpy as np

    width = np.dtype(kind).itemsize
    raw = np.ascontiguousarray(matrix[:, begin : begin + width])
    return raw.view(kind)[:, 0].astype(np.float64)

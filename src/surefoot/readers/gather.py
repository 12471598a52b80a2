"""Points of one file to one table: steps, attempts, events, and what was read under which name."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surefoot.readers.attempts import Attempts
from surefoot.readers.blocks import Block, Told, rises
from surefoot.readers.names import Name, Names, split_unit
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.table import Table
from surefoot.records import CheckpointInfo, Event

if TYPE_CHECKING:
    import polars

MOST_STEP = 2**63
MOST_EVENTS = 10_000
MOST_PROBLEMS = 50
OPEN = 16
"""Last rows of a stretch of a block that can still be added to."""


@dataclass(slots=True)
class Gathered:
    """What one file held.

    Attributes:
        frame: every row of every attempt: ``step``, ``attempt``, a column a signal.
        names: column -> the key it was printed under, with its factor.
        facts: what the log states of the run (``world_size``, ...).
        unplaced: points whose step is not known, e.g. before the first step.
    """

    frame: "polars.DataFrame"
    names: dict[str, Name]
    facts: dict[str, Any]
    events: list[Event]
    checkpoints: list[CheckpointInfo]
    problems: list[str]
    conflicts: dict[str, int]
    unplaced: int


@dataclass(slots=True)
class Gatherer:
    """Takes items one at a time; rows that are complete may be asked for while it goes on.

    Args:
        names: the file's names.
    """

    names: Names
    table: Table = field(default_factory=Table)
    attempts: Attempts = field(default_factory=Attempts)
    events: list[Event] = field(default_factory=list)
    checkpoints: dict[int, CheckpointInfo] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unplaced: int = 0
    _columns: dict[str, Name] = field(default_factory=dict)
    _here: dict[int | None, tuple[int, int]] = field(default_factory=dict)

    def take(self, item: Item) -> tuple[int, int] | None:
        """Take one item; the (attempt, step) of the row it went to, if it is a point with one."""
        if isinstance(item, Block):
            return self.take_block(item)
        if item.step is not None and not -MOST_STEP <= item.step < MOST_STEP:
            why = f"{str(item.step)[:24]}... is no step: left out"
            item = Note("unusable", line=item.line, data={"why": why})
        if isinstance(item, Note):
            self._note(item)
            return None
        values: dict[str, float] = {}
        for key, value in item.values.items():
            values.setdefault(self._column(key), value * self.names.of(key).factor)
        if item.step is None:
            here = self._here.get(item.rank) or self._here.get(None)
            if here is None:
                self.unplaced += 1
                return None
        else:
            here = (self._attempt(item, values), item.step)
            self._here[item.rank] = self._here[None] = here
        if item.time is not None:
            values.setdefault("timestamp", item.time)
        self.table.add(*here, values)
        return here

    def take_block(self, block: Block) -> tuple[int, int] | None:
        """Take many rows, as if one by one; the (attempt, step) of the row that the last went to.

        Stretches in which the step rises are taken at once, but for their last rows, which are
        left open for what may still be told of them; the others are taken as points.
        """
        if not len(block):
            return None
        here: tuple[int, int] | None = None
        columns = self._told(block)
        begin = 0
        for end in [*rises(block.steps), len(block)]:
            middle = end - OPEN
            if middle - begin >= OPEN:
                while begin < middle and not self.attempts.goes_on(
                    int(block.steps[begin]), block.rank
                ):
                    here = self._take_row(block, begin)
                    begin += 1
                if begin < middle:
                    steps = block.steps[begin:middle]
                    attempt = self.attempts.went_on(int(steps[-1]), block.rank)
                    told = [column.within(begin, middle) for column in columns]
                    self.table.add_block(attempt, steps, told)
                    begin = middle
            for row in range(begin, end):
                here = self._take_row(block, row)
            begin = end
        return here

    def _take_row(self, block: Block, row: int) -> tuple[int, int] | None:
        step, values = int(block.steps[row]), block.values_of(row)
        return self.take(Point(step, values, block.line + row, block.rank, time=block.time_of(row)))

    def _told(self, block: Block) -> list[Told]:
        """What a block tells, by column; of two keys of one column the first one is taken."""
        import numpy as np

        columns: dict[str, Told] = {}
        for key in block.keys():
            column, factor = self._column(key), self.names.of(key).factor
            values = block.values[key]
            told = Told(column, block.rows.get(key), values if factor == 1.0 else values * factor)
            columns[column] = columns[column].or_else(told) if column in columns else told
        if block.times is not None:
            rows = np.flatnonzero(~np.isnan(block.times))
            told = Told("timestamp", rows, block.times[rows])
            held = columns.get("timestamp")
            columns["timestamp"] = told if held is None else held.or_else(told)
        return list(columns.values())

    def gathered(self) -> Gathered:
        """All of it; nothing can be taken afterwards."""
        return Gathered(
            frame=self.table.frame(),
            names=self._columns,
            facts=self.facts,
            events=self.events,
            checkpoints=list(self.checkpoints.values()),
            problems=self.problems,
            conflicts=self.table.conflicts,
            unplaced=self.unplaced,
        )

    def _column(self, key: str) -> str:
        """The column of a key. Two keys of one signal: the second keeps its own name."""
        name = self.names.of(key)
        holder = self._columns.setdefault(name.column, name)
        if holder.key == key:
            return name.column
        # A key of no Latin letter stays as it is, but for halves of characters that JSON may hold.
        own = split_unit(key)[0] or key.encode("utf-8", "replace").decode()
        if own in ("step", "attempt"):  # columns of the table itself
            own = f"{own}_told"
        if own == name.column:
            own = f"{own}_2"
        self._columns.setdefault(own, Name(own, name.factor, key, False))
        return own

    def _attempt(self, point: Point, values: Mapping[str, float]) -> int:
        assert point.step is not None
        loss = values.get("loss")
        held = self.table.value(self.attempts.current, point.step, "loss")
        same = None
        # A placeholder of a rank that computes no loss says nothing.
        if loss is not None and held is not None and (loss == held or -1.0 not in (loss, held)):
            same = loss == held or (math.isnan(loss) and math.isnan(held))
        return self.attempts.place(point.step, point.rank, same=same, evaluation=point.evaluation)

    def _note(self, note: Note) -> None:
        attempt = self.attempts.current
        if note.kind == "resumed":
            self.attempts.resumed()
        elif note.kind == "facts":
            for key, value in note.data.items():
                self.facts.setdefault(key, value)
            return
        elif note.kind == "unusable":
            if len(self.problems) < MOST_PROBLEMS:
                where = f"line {note.line}: " if note.line else ""
                self.problems.append(f"{where}{note.data.get('why', 'could not be read')}")
            return
        elif note.kind == "checkpoint" and note.step is not None:
            path = str(note.data.get("path", ""))
            self.checkpoints[note.step] = CheckpointInfo(step=note.step, path=path)
        elif note.kind == "update_skipped":
            here = (attempt, note.step) if note.step is not None else self._here.get(None)
            if here is not None:
                self.table.add(*here, {"update_skipped": 1})
                self._columns.setdefault(
                    "update_skipped", Name("update_skipped", 1.0, "a message", True)
                )
        if len(self.events) < MOST_EVENTS:
            self.events.append(
                Event(kind=note.kind, step=note.step, attempt=attempt, data=dict(note.data))
            )


def gather(items: Iterable[Item], names: Names) -> Gathered:
    """All items of one file."""
    gatherer = Gatherer(names)
    for item in items:
        gatherer.take(item)
    return gatherer.gathered()

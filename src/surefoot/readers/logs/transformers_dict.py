"""Dictionaries that the Transformers trainer prints: ``{'loss': 2.3, ..., 'epoch': 0.1}``.

TRL, LLaMA-Factory, axolotl and ms-swift print them too. They hold no step (ms-swift's do:
``'global_step/max_steps': '1/94'``). It is taken from the progress bar beside them: the one that is
drawn again after the dictionary, else the one before. Without bars the records are counted, and a
note says so.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose, isfinite

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.logs._bars import bar
from surefoot.readers.logs._pairs import short
from surefoot.readers.logs._trainer_dict import LONGEST, entries, evaluates
from surefoot.readers.numbers import number, whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_TOTAL = re.compile(r"\bTotal optimization steps\s{0,4}=\s{0,4}([\d,]{1,16})")
_DESCRIPTIONS = ("", "train", "training", "steps", "step")
_SAVING = re.compile(r"\bSaving model checkpoint to (\S{0,400}checkpoint-(\d{1,12}))")
_SKIPPED = re.compile(r"\bOVERFLOW! Rank \d{1,6} Skipping step")
_RESUMED = re.compile(
    r"\b(?:Continuing training from global step |Resuming training from \S{0,400}checkpoint-)"
    r"(\d{1,12})"
)


@dataclass(slots=True)
class _Held:
    """A dictionary whose step is not known yet, and the bar before it."""

    line: Line
    values: dict[str, float]
    before: int | None
    total: int | None
    evaluation: bool


class TransformersDict(LineParser):
    """Dictionaries and bars.

    A dictionary is held until the next bar or the next dictionary. If the second of two follows
    the first with no bar between (its output was buffered, or bars went elsewhere), bars say
    nothing of steps and records are counted.
    """

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._mode: str | None = None
        self._bars: dict[int, int] = {}
        self._drawn: int | None = None  # total of the bar drawn last
        self._training: int | None = None  # total of the bar that counts steps
        self._stated: int | None = None
        self._told_total: int | None = None
        self._epochs: list[float] = []
        self._last: int | None = None
        self._previous: Mapping[str, float] = {}
        self._logged = False
        self._skipped: list[int] = []
        self._columns: list[str] = []

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class. Updates that DeepSpeed skipped are told with the next record."""
        if "OVERFLOW!" in line.text and _SKIPPED.search(line.text) is not None:
            self._skipped.append(line.number)
        for item in self._read(line):
            yield item
            if self._skipped and isinstance(item, Point) and not item.evaluation:
                yield from self._skips(item.step)

    def _skips(self, step: int | None) -> Iterator[Item]:
        for line in self._skipped:
            yield Note("update_skipped", step, line)
        self._skipped.clear()

    def _read(self, line: Line) -> Iterator[Item]:
        line = short(line, LONGEST)
        if "\t" in line.text and "{'" not in line.text:
            yield from self._table(line)
            return
        text, start = line.text, 0
        drawn = bar(text)
        if drawn is not None and drawn.description.lower() in _DESCRIPTIONS and drawn.exact:
            yield from self._bar(line, drawn.n, drawn.total)
            start = drawn.end
        begin = text.find("{'", start)
        if begin >= 0:
            yield from self._dictionary(line, begin)
            return
        if drawn is not None:
            return
        total = _TOTAL.search(text)
        if total is not None:
            self._stated = whole(total[1])
            yield from self._steps(line, self._stated)
            return
        saving = _SAVING.search(text)
        if saving is not None:
            yield Note("checkpoint", int(saving[2]), line.number, {"path": saving[1]})
            return
        resumed = _RESUMED.search(text)
        if resumed is not None:
            yield Note("resumed", int(resumed[1]), line.number)

    def _table(self, line: Line) -> Iterator[Item]:
        """A row of the table that a notebook shows: ``Step``, ``Training Loss``, ..."""
        cells = [cell.strip() for cell in line.text.split("\t")]
        if cells[0] == "Step" and "Training Loss" in cells:
            self._columns = cells
            return
        step = whole(cells[0]) if len(cells) == len(self._columns) else None
        if step is None:
            self._columns = []
            return
        told = {key: number(cell) for key, cell in zip(self._columns[1:], cells[1:], strict=True)}
        values = {key: value for key, value in told.items() if value is not None}  # or "No log"
        if values:
            self._last = step
            yield Point(step, values, line.number, line.rank, line.time)

    def finish(self) -> Iterator[Item]:
        """What is still held: its step is that of the bar before, or its count."""
        if self._held and self._mode is None:
            before = any(held.before is not None for held in self._held)
            self._mode = "bars" if before else "records"
            if not before:
                yield Note("facts", None, self._held[0].line.number, {"steps_are": "records"})
        yield from self._release(None)
        yield from self._skips(self._last)

    def _bar(self, line: Line, n: int, total: int) -> Iterator[Item]:
        if self._stated is not None and total != self._stated:
            return
        self._bars[total], self._drawn = n, total
        train = next((held for held in self._held if not held.evaluation), None)
        # An evaluation draws bars too: theirs have another total.
        if train is not None and train.total in (None, total):
            self._mode, self._training = "bars", total
            yield from self._release(n)
            yield from self._steps(line, total)

    def _dictionary(self, line: Line, begin: int) -> Iterator[Item]:
        read = entries(line.text, begin)
        if read is None:
            return
        values, step, total = read
        if "train_runtime" in values:
            yield from self._release(None)
            names = {"train_runtime": "train_runtime", "train_loss": "mean_loss"}
            facts = {fact: values[key] for key, fact in names.items() if key in values}
            yield Note("facts", None, line.number, facts)
            return
        if step is not None:
            self._last = step
            yield _point(line, values, step)
            yield from self._steps(line, total)
            return
        if evaluates(values):
            if self._held:
                self._held.append(_Held(line, values, None, None, True))
            else:
                yield _point(line, values, self._now())
            return
        logged = line.text[:begin].endswith(">> ")
        if logged != self._logged and self._repeats(values):
            if self._held:
                self._held[-1].values.update(values)
            else:
                yield _point(line, values, self._last)
            return
        self._previous, self._logged = dict(values), logged
        if any(not held.evaluation for held in self._held):
            if self._mode is None:
                self._mode = "records"
                yield Note("facts", None, line.number, {"steps_are": "records"})
            yield from self._release(None)
        before = None if self._drawn is None else self._bars[self._drawn]
        self._held.append(_Held(line, values, before, self._drawn, False))
        if self._mode == "records":
            yield from self._release(None)

    def _now(self) -> int | None:
        """The step at which an evaluation is told."""
        if self._mode == "bars" and self._training in self._bars:
            return self._bars[self._training]
        if self._last is None and self._bars:
            return self._bars[self._stated if self._stated in self._bars else max(self._bars)]
        return self._last

    def _repeats(self, values: Mapping[str, float]) -> bool:
        """Whether a logger's line tells what the dictionary before it has told."""
        old, new = self._previous.get("loss"), values.get("loss")
        if old is None or new is None:
            return False
        same = old == new or isclose(old, new, abs_tol=6e-5) or (old != old and new != new)
        epochs = abs(self._previous.get("epoch", 0.0) - values.get("epoch", 0.0))
        return same and epochs < 0.006

    def _release(self, after: int | None) -> Iterator[Item]:
        for held in self._held:
            if held.evaluation:
                yield _point(held.line, held.values, self._last)
            elif self._mode == "records":
                yield from self._count(held)
            else:
                step = held.before if after is None else after
                self._last = self._last if step is None else step
                yield _point(held.line, held.values, step)
        self._held.clear()

    def _count(self, held: _Held) -> Iterator[Item]:
        epoch = held.values.get("epoch")
        if epoch is not None and isfinite(epoch):
            if self._epochs and epoch < self._epochs[-1]:  # it went back: a restart
                del self._epochs[bisect_left(self._epochs, epoch) :]
                yield Note("resumed", None, held.line.number, {"epoch": epoch})
            self._epochs.append(epoch)
        else:
            self._epochs.append(self._epochs[-1] if self._epochs else 0.0)
        self._last = len(self._epochs)
        yield _point(held.line, held.values, self._last)

    def _steps(self, line: Line, total: int | None) -> Iterator[Item]:
        if total and total != self._told_total:
            self._told_total = total
            yield Note("facts", None, line.number, {"steps": total})


def _point(line: Line, values: dict[str, float], step: int | None) -> Point:
    return Point(step, values, line.number, line.rank, line.time, evaluation=evaluates(values))


FORMAT = LineFormat(
    name="transformers",
    title="Transformers",
    parser=by_rank(TransformersDict),
    needles=(
        "{'",
        "%|",
        "Total optimization steps",
        "checkpoint",
        "global step",
        "OVERFLOW!",
        "\t",
    ),
    names={
        "loss": ("loss", 1.0),
        "train_speed(s/it)": ("step_time", 1.0),
        "mean_token_accuracy": ("accuracy", 1.0),
        "num_tokens": ("consumed_tokens", 1.0),
        "memory/max_active (GiB)": ("memory", 2.0**30),
        "memory/max_mem_active(gib)": ("memory", 2.0**30),
        "memory/max_allocated (GiB)": ("memory_allocated", 2.0**30),
        "memory/device_reserved (GiB)": ("memory_reserved", 2.0**30),
        "memory/device_mem_reserved(gib)": ("memory_reserved", 2.0**30),
    },
    weight=0.97,
)

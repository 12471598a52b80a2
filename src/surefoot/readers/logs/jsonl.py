"""Metrics as JSON, one object a line: LLaMA-Factory, ms-swift, Levanter, Lingua, MaxText, W&B."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._records import (
    TOTALS,
    flatten,
    is_evaluation,
    is_metric,
    means,
    signal_of,
    stem_of,
    step_rank,
    step_value,
    value_of,
)
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line
from surefoot.readers.text.prefixes import timestamp

PREFIX = 400
"""Characters of a logger's own prefix that may stand before the object."""

MOST = 10_000
"""Objects on one line, glued."""
MOST_KEYS = 20_000
"""Numbers of one record; what has more is a whole document on one line."""

_DECODE = json.JSONDecoder().raw_decode
_STEP_IN_NAME = re.compile(r"(\d{1,15})(?:\.\w{1,12})?/?$")
_RESUME = re.compile(r"resum|restart|restor|load(?:ed|ing)?[ _-]?checkpoint|checkpoint[ _-]?load")
_SAVE = re.compile(r"sav(?:e|ed|ing)|checkpoint")
_NO_RECORDS = frozenset(("summary", "finish", "hparams", "artifact", "config"))
_FROM = (
    "resumed_from", "resume_from", "restored_from", "loaded_from", "from", "checkpoint",
    "checkpoint_step", "step", "global_step", "iteration", "path", "at",
)  # fmt: skip
_PATHS = ("path", "checkpoint", "checkpoint_path", "dir", "file", "resumed_from")
_TIMES = frozenset(("timestamp", "time", "date", "datetime", "created_at", "ts"))
_IGNORED = frozenset(("percentage", "rank", "_step"))


MOST_PLANS = 64
_NUMBERS = {int, float}
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the keys of a plain record mean."""

    step: str
    values: tuple[str, ...]
    time: str | None
    evaluation: bool


class JsonLines(LineParser):
    """Objects with numbers; those that name an event are notes."""

    def __init__(self) -> None:
        self._step_key: str | None = None
        self._total: int | None = None
        self._rows = 0
        self._unmarked = True
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def feed(self, line: Line) -> Iterable[Item]:
        """See the base class."""
        text = line.text
        at = text.find("{")
        if not 0 <= at <= PREFIX or '"' not in text:
            return
        begun = at
        for _ in range(MOST):
            if not 0 <= at < len(text):
                return
            try:
                record, end = _DECODE(text, at)
            except (ValueError, RecursionError):
                if begun == 0 and text.startswith('{"') and (self._rows or self._step_key):
                    why = "a JSON record that is cut short or damaged"
                    yield Note("unusable", None, line.number, {"why": why})
                return
            point = self._like_before(record, line)
            if point is not None:
                yield point
            else:
                yield from self._record(record, line)
            at = text.find("{", end, end + 8)

    def _like_before(self, record: dict[str, Any], line: Line) -> Point | None:
        """The point of a record with the keys of an earlier one and nothing but plain numbers."""
        plan = self._plans.get(tuple(record))
        if plan is None:
            return None
        step = record[plan.step]
        values = {key: record[key] for key in plan.values}
        if type(step) is not int or not set(map(type, values.values())) <= _NUMBERS:
            return None
        if abs(step) >= _MOST or max(map(abs, values.values())) >= _MOST:
            return None
        time = line.time
        if plan.time is not None:
            time = record[plan.time]
            if type(time) not in _NUMBERS or time > 1e11:
                return None
        return Point(step, values, line.number, line.rank, time, evaluation=plan.evaluation)

    def _plan(self, record: dict[str, Any], point: Point, taken: str) -> None:
        """Remember what the keys of a record mean, if it is as plain as can be."""
        kinds = set(map(type, record.values()))
        times = [key for key in record if signal_of(key) == "timestamp"]
        rest = set(record) - set(point.values) - {taken} - set(times) - _IGNORED
        plain = kinds <= _NUMBERS and not rest and len(times) < 2 and "rank" not in record
        if plain and taken in record and len(self._plans) < MOST_PLANS:
            time = times[0] if times else None
            plan = _Plan(taken, tuple(point.values), time, point.evaluation)
            self._plans[tuple(record)] = plan

    def _record(self, record: dict[str, Any], line: Line) -> Iterator[Item]:
        if "event_type" in record and "namespace" in record:  # MLPerf
            return
        event = record.get("event")
        if isinstance(event, str):
            if event in _NO_RECORDS:
                return
            notes = list(_notes(event.lower(), record, line))
            if notes:
                yield from notes
                return
        elif "resumed_from" in record or "resume_from" in record:
            yield from _notes("resumed", record, line)
            return
        if "train_runtime" in record:  # the end of the run: its train_loss is the run's mean
            yield Note("facts", None, line.number, _numbers(record))
            return
        if "last_model_checkpoint" in record:  # how ms-swift ends: beside it stands the history
            yield Note("facts", None, line.number, _numbers(record))
            last = record["last_model_checkpoint"]
            step = _step_in({"checkpoint": last})
            if step is not None:
                yield Note("checkpoint", step, line.number, {"path": last})
            return
        flat = flatten(record)
        if len(flat) > MOST_KEYS:
            return
        step, total, taken = self._step(flat)
        if total is not None and total != self._total:
            self._total = total
            yield Note("facts", None, line.number, {"steps": total})
        rank = flat.get("rank")
        left_out = _IGNORED | {taken} | means(flat)
        values: dict[str, float] = {}
        time = line.time
        for key, value in flat.items():
            if key in left_out or stem_of(key) in TOTALS:
                continue
            told = value_of(key, value)
            if told is None:
                if isinstance(value, str) and stem_of(key) in _TIMES:
                    time = timestamp(value) or time
                continue
            if signal_of(key) == "timestamp":
                time = told / 1000.0 if told > 1e11 else told
            else:
                values[key] = told
        if not values:
            return
        if step is None:
            # Beside the steps of the run a tracker counts its own calls.
            if "_step" not in flat and not any(is_metric(key) for key in values):
                return
            if self._unmarked:
                self._rows += 1
                step = self._rows
                if step == 1:
                    yield Note("facts", None, line.number, {"steps_are": "rows"})
        told_rank = rank if isinstance(rank, int) and not isinstance(rank, bool) else line.rank
        point = Point(step, values, line.number, told_rank, time, evaluation=is_evaluation(values))
        if step is not None and taken is not None:
            self._plan(record, point, taken)
        yield point

    def _step(self, flat: dict[str, object]) -> tuple[int | None, int | None, str | None]:
        """(step, steps of the run, key of the step)."""
        total = None
        for key, value in flat.items():
            if stem_of(key) in TOTALS:
                total = step_value(value)[0]
        if self.step_key is not None:
            step, of = step_value(flat.get(self.step_key))
            self._unmarked &= step is None
            return step, of or total, self.step_key
        # The key that told the last step first: a file may count several things.
        keys = [] if self._step_key is None else [self._step_key]
        ranked = sorted((rank, key) for key in flat if (rank := step_rank(key)) is not None)
        keys += [key for _, key in ranked if self._step_key is None or stem_of(key) != "_step"]
        for key in keys:
            step, of = step_value(flat.get(key))
            if step is not None:
                if self._step_key is None:
                    self._step_key = key
                self._unmarked = False
                return step, of or total, key
        return None, total, None


def _notes(event: str, record: dict[str, Any], line: Line) -> Iterator[Item]:
    """What a record of an event tells; nothing if it is but the envelope of metrics."""
    data = {key: value for key, value in record.items() if key != "event" and _plain(value)}
    if _RESUME.search(event):
        yield Note("resumed", _step_in(record), line.number, data)
    elif _SAVE.search(event):
        path = next((record[key] for key in _PATHS if isinstance(record.get(key), str)), None)
        told = {"path": path} if path is not None else {}
        yield Note("checkpoint", _step_in(record), line.number, told)
    elif not any(is_metric(key) for key in flatten(record)):
        yield Note("facts", None, line.number, {f"event_{event[:40]}": data})


def _step_in(record: dict[str, Any]) -> int | None:
    for key in _FROM:
        value = record.get(key)
        step = step_value(value)[0]
        if step is None and isinstance(value, str):
            found = _STEP_IN_NAME.search(value[-200:])
            step = int(found[1]) if found else None
        if step is not None:
            return step
    return None


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    numbers = {key: value_of(key, value) for key, value in record.items()}
    return {f"run_{k}": v for k, v in numbers.items() if v is not None and step_rank(k) is None}


_NEEDLES = ('":', '" :')

FORMATS = (
    LineFormat(
        name="llamafactory",
        title="LLaMA-Factory",
        parser=JsonLines,
        needles=('"current_steps"',),
        names={
            "throughput": ("tokens_per_second", 1.0),
            "vram_allocated": ("memory", 2.0**30),
            "vram_reserved": ("memory_reserved", 2.0**30),
        },
        weight=0.96,
    ),
    LineFormat(
        name="jsonl",
        title="JSON lines",
        parser=JsonLines,
        needles=_NEEDLES,
        names={"train_speed(s/it)": ("step_time", 1.0)},  # of ms-swift
        weight=0.94,
    ),
)

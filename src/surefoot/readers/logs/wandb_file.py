"""Weights & Biases run files (``run-ID.wandb``), old and new, read without the package."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from surefoot.errors import LogError
from surefoot.readers.aliases import STEPS
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs import _wandb_records as wire
from surefoot.readers.logs._protobuf import BYTES, VARINT, Malformed, fields, signed, text
from surefoot.readers.logs._wandb_store import MAGIC, Store
from surefoot.readers.names import split_unit
from surefoot.readers.points import Item, Note, Point

if TYPE_CHECKING:
    from surefoot.readers.text import Source

MOST_CONFIG = 2000
_NOT_STEPS = frozenset(("it", "batch", "update", "steps", "current_steps"))
"""Keys that other logs use for the step, but which here are as likely to be something else."""


class WandbFile(FileFormat):
    """History, configuration and what is told of the run; system metrics are left out.

    The step is the trainer's own where it logs one (``train/global_step``): the logger's ``_step``
    only counts its calls, unless the trainer hands it the step.
    """

    name: ClassVar[str] = "wandb"
    title: ClassVar[str] = "Weights & Biases run file"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {
        "_runtime": ("consumed_runtime", 1.0),
        "train/train_loss": ("train_train_loss", 1.0),  # Trainer's mean of the whole run
    }

    def score(self, source: "Source") -> float:
        """See the base class."""
        return 1.0 if source.head.startswith(MAGIC) else 0.0

    def read(self, source: "Source") -> Iterator[Item]:
        """See the base class."""
        store, content = Store(source.chunks()), Content()
        for record in store.records():
            content.take(record)
        if not store.count:
            raise LogError(f"{source.name} holds no whole record of a Weights & Biases run")
        yield Note("facts", data=content.described())
        if content.starting_step:
            yield Note("resumed", content.starting_step)
        yield from _points(content, source.keys.get("step"))
        yield from _harm(store, content)


FORMAT = WandbFile()


class Content:
    """What the records of one file say.

    Attributes:
        rows: the history, in the order of the file.
        metrics: keys that the user declared as the step of others.
        starting_step: where a resumed run goes on; 0 for a new one.
    """

    def __init__(self) -> None:
        self.rows: list[wire.Row] = []
        self.metrics: list[str] = []
        self.config: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.starting_step = 0
        self.malformed = 0

    def take(self, record: bytes) -> None:
        """Take one record."""
        try:
            kind, begin, end = wire.kind_of(record)
            if kind == wire.HISTORY:
                self.rows.append(wire.history(record, begin, end))
            elif kind == wire.CONFIG:
                self._configure(record, begin, end)
            elif kind == wire.RUN:
                self._run(record, begin, end)
            elif kind:
                self._other(kind, record, begin, end)
        except Malformed:
            self.malformed += 1

    def described(self) -> dict[str, Any]:
        """Facts of the run, the configuration among them."""
        told = dict(self.facts)
        if self.config:
            told["config"] = self.config
        for key in ("world_size", "vocab_size"):
            value = self.config.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                told.setdefault(key, value)
        return told

    def _configure(self, record: bytes, begin: int, end: int) -> None:
        for path, value in wire.items(record, begin, end):
            # Files of older versions hold {"value": ..., "desc": ...}.
            if isinstance(value, dict) and "value" in value and set(value) <= {"value", "desc"}:
                value = value["value"]
            if len(self.config) < MOST_CONFIG:
                self.config[".".join(path)] = value

    def _run(self, record: bytes, begin: int, end: int) -> None:
        names = {1: "run_id", 2: "entity", 3: "project", 8: "run_name", 13: "host"}
        for key, kind, at, stop, value in fields(record, begin, end):
            if key == 4 and kind == BYTES:
                self._configure(record, at, stop)
            elif key in names and kind == BYTES:
                self.facts[names[key]] = text(record, at, stop)
            elif key == 14 and kind == VARINT:
                self.starting_step = max(0, signed(value))
            elif key == 19 and kind == BYTES:
                self._other(wire.TELEMETRY, record, at, stop)
            elif key == 21 and kind == BYTES:
                self._strings(record, at, stop, {2: "git_commit"})

    def _other(self, kind: int, record: bytes, begin: int, end: int) -> None:
        if kind == wire.TELEMETRY:
            self._strings(record, begin, end, {4: "python_version", 5: "wandb_version"})
        elif kind == wire.ENVIRONMENT:
            self._strings(record, begin, end, {1: "os", 2: "python", 6: "program", 18: "gpu_type"})
            for key, form, _, _, value in fields(record, begin, end):
                if key == 19 and form == VARINT:
                    self.facts["gpu_count"] = value
        elif kind == wire.METRIC:
            for key, form, at, stop, _ in fields(record, begin, end):
                if key == 4 and form == BYTES:
                    self.metrics.append(text(record, at, stop))
        elif kind == wire.EXIT:
            self.facts["exit_code"] = 0
            for key, form, _, _, value in fields(record, begin, end):
                if key == 1 and form == VARINT:
                    self.facts["exit_code"] = signed(value)

    def _strings(self, record: bytes, begin: int, end: int, names: Mapping[int, str]) -> None:
        for key, form, at, stop, _ in fields(record, begin, end):
            if key in names and form == BYTES:
                self.facts[names[key]] = text(record, at, stop)


def step_key(rows: Sequence[wire.Row], metrics: Sequence[str]) -> str | None:
    """The key under which the trainer logs its step; None if it logs none.

    A key that the user declared as a step, or one that is called so, which most rows have, and
    whose whole numbers do not often go back.
    """
    counts: dict[str, int] = {}
    for row in rows:
        for key in row.values:
            counts[key] = counts.get(key, 0) + 1
    named = [key for key in counts if _rank(key) < len(STEPS)]
    likely = [
        key for key in dict.fromkeys(metrics) if key in counts and (key in named or _steplike(key))
    ]
    likely += sorted(named, key=_rank)
    for key in likely:
        steps = [row.values[key] for row in rows if key in row.values]
        whole = all(step == step // 1 and abs(step) < 2**63 for step in steps)
        if not whole or 2 * len(steps) < len(rows):
            continue
        back = sum(b < a for a, b in pairwise(steps))
        if 20 * back <= len(steps) and (len(set(steps)) > 1 or len(steps) == 1):
            return key
    return None


def _steplike(key: str) -> bool:
    return not key.startswith("_") and split_unit(key)[0].endswith(("step", "iteration"))


def _rank(key: str) -> int:
    stem = split_unit(key)[0]
    if key.startswith("_") or stem in _NOT_STEPS or stem not in STEPS:
        return len(STEPS)
    return STEPS.index(stem)


def _points(content: Content, wanted: str | None) -> Iterator[Item]:
    """A point for each row of the history."""
    rows = content.rows
    key = wanted if wanted not in (None, "_step") else None
    if wanted is None:
        key = step_key(rows, content.metrics)
    if key is not None:
        yield Note("facts", data={"step_key": key})
    last: int | None = None
    for number, row in enumerate(rows, start=1):
        values = row.values
        time = values.pop("_timestamp", None)
        if key is None:
            last = row.step if row.step is not None else (0 if last is None else last + 1)
        elif math.isfinite(step := values.get(key, math.nan)) and abs(step) < 2**63:
            del values[key]
            last = int(step)
        if values and not (len(values) == 1 and "_runtime" in values):
            yield Point(last, values, number, time=time)


def _harm(store: Store, content: Content) -> Iterator[Note]:
    """What could not be read."""
    if store.damaged:
        why = (
            f"{store.damaged:,} damaged record{'s' * (store.damaged > 1)}, the first at byte "
            f"{store.first:,}: left out"
        )
        yield Note("unusable", data={"why": why})
    if content.malformed:
        why = f"{content.malformed:,} records are no messages and were left out"
        yield Note("unusable", data={"why": why})
    if store.torn:
        yield Note(
            "unusable", data={"why": "the last record is cut short: the file was not closed"}
        )

"""What the records of a ``.wandb`` file say, gathered: history, configuration, facts, the step."""

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surefoot.readers.aliases import STEPS
from surefoot.readers.logs import _wandb_records as wire
from surefoot.readers.logs._protobuf import BYTES, VARINT, Malformed, fields, signed, text
from surefoot.readers.names import split_unit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

MOST_CONFIG = 2000
_NOT_STEPS = frozenset(("it", "batch", "update", "steps", "current_steps"))
"""Keys that other logs use for the step, but which here are as likely to be something else."""


class Content:
    """What the records of one file say.

    Attributes:
        steps: of each row of the history as the logger counts them.
        columns: key -> the rows that tell it, and its numbers.
        metrics: keys that the user declared as the step of others.
        starting_step: where a resumed run goes on; 0 for a new one.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.columns: dict[str, tuple[array[int], array[float]]] = {}
        self.metrics: list[str] = []
        self.config: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.starting_step = 0
        self.malformed = 0
        self._keys: dict[bytes, str] = {}

    def take(self, record: bytes) -> None:
        """Take one record."""
        try:
            kind, begin, end = wire.kind_of(record)
            if kind == wire.HISTORY:
                self._row(wire.history(record, begin, end, self._keys))
            elif kind == wire.CONFIG:
                self._configure(record, begin, end)
            elif kind == wire.RUN:
                self._run(record, begin, end)
            elif kind:
                self._other(kind, record, begin, end)
        except Malformed:
            self.malformed += 1

    def _row(self, row: wire.Row) -> None:
        number = len(self.steps)
        following = self.steps[-1] + 1 if number else 0
        self.steps.append(following if row.step is None else row.step)
        for key, value in row.values.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = (array("q"), array("d"))
            column[0].append(number)
            column[1].append(value)

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


def step_key(content: Content) -> str | None:
    """The key under which the trainer logs its step; None if it logs none.

    A key that the user declared as a step, or one that is called so, which most rows have, and
    whose whole numbers do not often go back.
    """
    import numpy as np

    declared = [key for key in content.metrics if key in content.columns]
    likely = [key for key in declared if _rank(key) < len(STEPS) or _steplike(key)]
    likely += sorted((key for key in content.columns if _rank(key) < len(STEPS)), key=_rank)
    for key in likely:
        steps = np.array(content.columns[key][1])
        if 2 * len(steps) < len(content.steps) or not whole(steps).all():
            continue
        back = int((steps[1:] < steps[:-1]).sum())
        if 20 * back <= len(steps) and (len(steps) == 1 or (steps != steps[0]).any()):
            return key
    return None


def whole(steps: "Floats") -> "npt.NDArray[np.bool_]":
    """Which numbers can be steps."""
    import numpy as np

    fits: npt.NDArray[np.bool_] = np.isfinite(steps) & (np.abs(steps) < 2.0**63)
    fits &= np.trunc(steps) == steps
    return fits


def _steplike(key: str) -> bool:
    return not key.startswith("_") and split_unit(key)[0].endswith(("step", "iteration"))


def _rank(key: str) -> int:
    stem = split_unit(key)[0]
    if key.startswith("_") or stem in _NOT_STEPS or stem not in STEPS:
        return len(STEPS)
    return STEPS.index(stem)

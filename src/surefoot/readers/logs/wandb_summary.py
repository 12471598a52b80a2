"""``wandb-summary.json``: the last value of everything that a run sent to Weights & Biases."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from surefoot.errors import LogError
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs._json import document_of, head_of, is_lines
from surefoot.readers.logs._records import (
    flatten,
    means,
    signal_of,
    step_rank,
    step_value,
    value_of,
)
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Source

TAIL = 16 * 1024
_OWN = re.compile(rb'"(?:_step|_runtime|_wandb)"\s*:')
_NUMBER = re.compile(rb'"[^"\\\n]{1,200}"\s*:\s*-?(?:\d|NaN|Infinity)')


class WandbSummary(FileFormat):
    """One row, of the step at which the run stopped or stands."""

    name = "wandb-summary"
    title = "Weights & Biases summary"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {}

    def score(self, source: Source) -> float:
        """See the base class."""
        head = head_of(source).rstrip()
        if head[:1] != b"{" or is_lines(head) or not _NUMBER.search(head):
            return 0.0
        if _OWN.search(head):
            return 0.97
        file = source.file
        if file is None or len(head) < 4096:
            return 0.0
        with open(file, "rb") as stream:  # the order of the keys is any: they may stand at the end
            stream.seek(max(0, os.path.getsize(file) - TAIL))
            tail = stream.read()
        whole = tail.rstrip()[-1:] == b"}" and b"}\n{" not in tail
        return 0.97 if whole and _OWN.search(tail) else 0.0

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        document, cut = document_of(source)
        if not isinstance(document, dict):
            raise LogError(f"{source.name} holds no summary: expected one JSON object")
        if cut:
            yield Note(
                "unusable", data={"why": "the file is cut short or damaged: its end is lost"}
            )
        yield from row_of(document, source.keys.get("step"))


def row_of(document: Mapping[str, Any], step_key: str | None) -> Iterator[Item]:
    """One object of metrics as one point; its step is 1 if it tells none."""
    flat = flatten(document)
    step, taken = None, step_key
    keys = sorted((rank, key) for key in flat if (rank := step_rank(key)) is not None)
    for key in [step_key] if step_key is not None else [key for _, key in keys]:
        step = step_value(flat.get(key))[0]
        if step is not None:
            taken = key
            break
    if step is None:
        yield Note("facts", data={"steps_are": "rows"})
        step = 1
    time = None
    values: dict[str, float] = {}
    left_out = {taken, "_step", *means(flat)}
    for key, value in flat.items():
        told = None if key in left_out else value_of(key, value)
        if told is None:
            continue
        if signal_of(key) == "timestamp":
            time = told
        else:
            values[key] = told
    yield Point(step, values, time=time)


FORMAT = WandbSummary()

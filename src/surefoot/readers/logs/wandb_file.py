"""Weights & Biases run files (``run-ID.wandb``), old and new, read without the package."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from surefoot.errors import LogError
from surefoot.readers.blocks import Block
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs._wandb_content import Content, step_key, whole
from surefoot.readers.logs._wandb_store import MAGIC, Store
from surefoot.readers.points import Item, Note

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from surefoot.readers.text import Source

    Whole = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

ROWS = 1 << 16
"""Rows of a block."""


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
        yield from _rows(content, source.keys.get("step"))
        yield from _harm(store, content)


FORMAT = WandbFile()


def _rows(content: Content, wanted: str | None) -> Iterator[Item]:
    """The history as blocks, by the step that the user wants, or the trainer's, or the logger's."""
    import numpy as np

    columns = {
        key: (np.array(rows, np.int64), np.array(values, np.float64))
        for key, (rows, values) in content.columns.items()
    }
    steps, placed = np.array(content.steps, np.int64), np.ones(len(content.steps), bool)
    key = step_key(content) if wanted is None else wanted
    if key in columns:
        rows, values = columns.pop(key)
        usable = whole(values if wanted is None else np.trunc(values))
        rows, values = rows[usable], values[usable]
        # A row that does not say its step belongs to the one before.
        last = np.searchsorted(rows, np.arange(len(steps)), side="right") - 1
        placed = last >= 0
        steps = values.astype(np.int64)[last] if len(rows) else steps
        yield Note("facts", data={"step_key": key})
    times = np.full(len(steps), np.nan)
    if "_timestamp" in columns:
        rows, values = columns.pop("_timestamp")
        times[rows] = values
    filled = np.zeros(len(steps), bool)  # a row that only says how late it is says nothing
    for name, (rows, _) in columns.items():
        filled[rows] |= name != "_runtime"
    if not placed.all():
        why = f"{int((~placed).sum()):,} rows come before any that tells {key}: left out"
        yield Note("unusable", data={"why": why})
    yield from _blocks(steps, times, placed & filled, columns)


def _blocks(
    steps: "Whole",
    times: "Floats",
    kept: "npt.NDArray[np.bool_]",
    columns: Mapping[str, tuple["Whole", "Floats"]],
) -> Iterator[Item]:
    """The kept rows; such of one step as follow one another, as calls of a logger do, are one."""
    import numpy as np

    chosen = np.flatnonzero(kept)
    steps, times = steps[chosen], times[chosen]
    new = np.ones(len(steps), bool)
    new[1:] = steps[1:] != steps[:-1]
    number = np.zeros(len(kept), np.int64)
    number[chosen] = new.cumsum() - 1
    steps, times = steps[new], times[new]
    differing = 0
    parts: dict[str, tuple[Whole, Floats]] = {}
    for key, (rows, values) in columns.items():
        values, rows = values[kept[rows]], number[rows[kept[rows]]]
        again = np.zeros(len(rows), bool)
        again[1:] = rows[1:] == rows[:-1]
        unlike = again[1:] & (values[1:] != values[:-1]) & ~np.isnan(values[1:])
        differing += int(unlike.sum())
        parts[key] = rows[~again], values[~again]
    for begin in range(0, len(steps), ROWS):
        end = min(begin + ROWS, len(steps))
        told, places = {}, {}
        for key, (rows, values) in parts.items():
            inside = slice(*np.searchsorted(rows, [begin, end]))
            if len(rows[inside]):
                told[key], places[key] = values[inside], rows[inside] - begin
        yield Block(steps[begin:end], told, places, times=times[begin:end])
    if differing:
        why = f"another number is told for the same step: {differing:,} times; the first stays"
        yield Note("unusable", data={"why": why})


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

"""TensorBoard event files: what any ``SummaryWriter`` leaves, read without TensorBoard."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from surefoot.errors import LogError
from surefoot.readers.blocks import Block
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs._protobuf import Malformed
from surefoot.readers.logs._tfevent import parse
from surefoot.readers.logs._tfrecord import WINDOW, Frames, begins_well
from surefoot.readers.logs._tfscalars import Scalars
from surefoot.readers.points import Item, Note

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from surefoot.readers.text import Source

    Whole = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

VERSION = b"brain.Event:"
"""In the first record of each file, before the number of the version."""
ROWS = 1 << 17
"""Rows of a block."""

_OTHER_AXIS = re.compile(
    r"\bvs\.? (?:samples|tokens|gigaflop|time|epochs?)\b|\by=\w{1,40},x=(?!steps)", re.IGNORECASE
)
"""Tags that Megatron and its kin write a second time, over samples or tokens in place of steps."""
_VALIDATION = frozenset(("validation", "val", "valid", "eval", "evaluation", "test"))


class TensorBoard(FileFormat):
    """One event file; several of one folder are joined where runs are put together."""

    name: ClassVar[str] = "tensorboard"
    title: ClassVar[str] = "TensorBoard"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {
        "Train/Samples/train_loss": ("loss", 1.0),  # DeepSpeed
        "Train/Samples/lr": ("learning_rate", 1.0),
        "Train/Samples/loss_scale": ("loss_scale", 1.0),
        "epoch_loss": ("loss", 1.0),  # Keras
        "epoch_learning_rate": ("learning_rate", 1.0),
        "validation/epoch_loss": ("validation_loss", 1.0),
        "train/train_loss": ("train_train_loss", 1.0),  # Trainer's mean of the whole run
    }

    def score(self, source: "Source") -> float:
        """See the base class."""
        head = source.head
        if VERSION in head[:256]:
            return 1.0
        first = begins_well(head)
        if first is None or not 9 <= first[1] <= len(head) - first[0]:
            return 0.0
        try:
            event = parse(head, first[0], sum(first), set())
        except Malformed:
            return 0.0
        return 0.9 if event.time_begin >= 0 else 0.0

    def read(self, source: "Source") -> Iterator[Item]:
        """See the base class."""
        frames, scalars = Frames(source.chunks(WINDOW)), Scalars()
        for window in frames.windows():
            scalars.take(*window)
        if not frames.count:
            raise LogError(f"{source.name} holds no whole record of an event file")
        record, step, time, tag, value = scalars.arrays()
        keys = _keys(scalars.tags, source.path)
        wanted = _wanted(scalars)
        if len(wanted) < len(scalars.tags):
            import numpy as np

            chosen = np.isin(tag, wanted)
            record, step, time = record[chosen], step[chosen], time[chosen]
            tag, value = tag[chosen], value[chosen]
        yield from _blocks(attempts_of(record, step, tag), step, time, tag, value, keys)
        yield from _harm(frames, scalars)


FORMAT = TensorBoard()


def _wanted(scalars: Scalars) -> list[int]:
    """Numbers of the tags whose steps are steps; all that hold scalars, if there are none such."""
    told = [tag for tag in scalars.tags if tag not in scalars.others]
    wanted = [tag for tag in told if not _OTHER_AXIS.search(tag)]
    return [scalars.tags[tag] for tag in wanted or told]


def _keys(tags: Mapping[str, int], path: str) -> list[str]:
    """The key of each tag. Where a writer's folder tells more than the tag, it is part of it.

    ``add_scalars("loss", {"val": ...})`` writes the tag ``loss``, and no other, in a folder
    ``loss_val`` beside the writer's own file; Keras writes the same tags in folders ``train`` and
    ``validation``.
    """
    folder = Path(path).parent
    keys = []
    for tag in tags:
        flat = tag.replace("/", "_").replace(" ", "_")
        own = folder.name.removeprefix(f"{flat}_")
        words = set(re.split(r"\W|_", tag.lower()))
        if len(tags) == 1 and own != folder.name and any(folder.parent.glob("*tfevents*")):
            keys.append(f"{tag}_{own}")
        elif folder.name.lower() in _VALIDATION and not _VALIDATION & words:
            keys.append(f"validation/{tag}")
        else:
            keys.append(tag)
    return keys


def attempts_of(record: "Whole", step: "Whole", tag: "Whole") -> "Whole":
    """The attempt of each scalar: a tag whose step goes back begins a new one, for all tags.

    Tags are followed each by itself, since a writer may tell them in any order. One that goes back
    after the new attempt began, and for the first time in it, only follows.
    """
    import numpy as np

    order = np.argsort(tag, kind="stable")
    steps, tags = step[order], tag[order]
    back = np.flatnonzero((tags[1:] == tags[:-1]) & (steps[1:] < steps[:-1]))
    begins = np.zeros(len(step), np.int64)
    start = 0
    for now, before in sorted(zip(order[back + 1].tolist(), order[back].tolist(), strict=True)):
        if before >= start:
            start = int(np.searchsorted(record, record[now]))
            begins[start] = 1
    return begins.cumsum()


def _blocks(
    attempt: "Whole", step: "Whole", time: "Floats", tag: "Whole", value: "Floats", keys: list[str]
) -> Iterator[Item]:
    """Rows of (attempt, step), each with every tag that was told of it."""
    import numpy as np

    if not len(step):
        return
    order = np.lexsort((step, attempt))  # stable: what was told first stays first
    attempt, step, time = attempt[order], step[order], time[order]
    tag, value = tag[order], value[order]
    new = np.ones(len(step), bool)
    new[1:] = (step[1:] != step[:-1]) | (attempt[1:] != attempt[:-1])
    row = new.cumsum() - 1
    firsts = np.flatnonzero(new)
    attempts, steps, times = attempt[firsts], step[firsts], time[firsts]
    bounds = np.flatnonzero(np.diff(attempts, prepend=-1)).tolist()
    ends = [
        min(begin + ROWS, end)
        for first, end in zip(bounds, [*bounds[1:], len(steps)], strict=True)
        for begin in range(first, end, ROWS)
    ]
    begin, differing = 0, 0
    for end in ends:
        at = slice(*np.searchsorted(row, [begin, end]))
        by_tag = np.lexsort((row[at], tag[at]))
        rows, tags, values = row[at][by_tag] - begin, tag[at][by_tag], value[at][by_tag]
        again = np.zeros(len(rows), bool)
        again[1:] = (tags[1:] == tags[:-1]) & (rows[1:] == rows[:-1])
        if again.any():
            unlike = again[1:] & ~((values[1:] == values[:-1]) | np.isnan(values[1:]))
            differing += int(unlike.sum())
            rows, tags, values = rows[~again], tags[~again], values[~again]
        starts = np.flatnonzero(np.diff(tags, prepend=-1)).tolist()
        told: dict[str, Floats] = {}
        places: dict[str, Whole] = {}
        for first, last in zip(starts, [*starts[1:], len(tags)], strict=True):
            key = keys[int(tags[first])]
            told[key] = values[first:last]
            if last - first < end - begin:
                places[key] = rows[first:last]
        yield Block(steps[begin:end], told, places, times=times[begin:end])
        begin = end
    if differing:
        why = f"another number is told for the same step: {differing:,} times; the first stays"
        yield Note("unusable", data={"why": why})


def _harm(frames: Frames, scalars: Scalars) -> Iterator[Note]:
    """What could not be read."""
    if frames.damaged:
        why = (
            f"{frames.damaged:,} damaged record{'s' * (frames.damaged > 1)}, the first at byte "
            f"{frames.first:,}: left out"
        )
        if frames.skipped:
            why += f"; {frames.skipped:,} bytes were passed over in search of the next one"
        yield Note("unusable", data={"why": why})
    if scalars.malformed:
        why = f"{scalars.malformed:,} records are no events and were left out"
        yield Note("unusable", data={"why": why})
    if frames.torn:
        yield Note(
            "unusable", data={"why": "the last record is cut short: the file was not closed"}
        )

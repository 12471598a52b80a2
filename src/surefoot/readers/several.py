"""Several files of one run: which of them tell it, in which order, and as one table.

A folder holds a run many times: every checkpoint of a Transformers run repeats the history up to
it, each rank writes the same losses, a metric tracker keeps what the output tells too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.readers.gather import Gathered
from surefoot.readers.recognise import Guess

if TYPE_CHECKING:
    import polars

Read = tuple[Path, Gathered, list[Guess]]
"""A file, what it held, and the guesses of its format."""

_KEYS = ["attempt", "step"]
_NUMBER = re.compile(r"(\d{1,18})")


def one_family(read: Sequence[Read]) -> tuple[list[Read], list[Read]]:
    """The files of the format that tells most, and the others: a folder holds a run many times."""
    told: dict[str, int] = {}
    for _, gathered, guesses in read:
        name = guesses[0].format.name
        told[name] = told.get(name, 0) + len(gathered.frame) * gathered.frame.width
    best = max(told, key=lambda name: told[name])
    chosen = [item for item in read if item[2][0].format.name == best]
    return chosen, [item for item in read if item[2][0].format.name != best]


def in_order(read: Sequence[Read]) -> list[Read]:
    """The files as they came after one another.

    By the time of their first row, where every file tells it. Else by their steps, where no two
    files share any; else as they were named, and names in the order of the alphabet (a shell's
    pattern gives them so) by the numbers in them: ``slurm-999`` comes before ``slurm-1000``.
    """
    begins = [(time, item) for item in read if (time := _began(item)) is not None]
    if len(begins) == len(read):
        return [item for _, item in sorted(begins, key=lambda pair: pair[0])]
    names = [str(path) for path, _, _ in read]
    ordered = list(read)
    if names == sorted(names):
        ordered.sort(key=lambda item: _natural(str(item[0])))
    by_step = sorted(ordered, key=lambda item: _span(item)[0])
    apart = all(_span(one)[1] < _span(two)[0] for one, two in pairwise(by_step))
    return by_step if apart else ordered


def without_repeats(read: Sequence[Read]) -> tuple[list[Read], list[Read]]:
    """The files that tell something of their own, in the order given, and those that do not.

    A file repeats a longer one if that has all of its steps with the same losses (the same numbers,
    where no loss is told). A loss of -1, of a rank that computes none, is like any other.
    """
    kept: list[Read] = []
    for item in sorted(read, key=lambda item: (-len(item[1].frame), _blind(item[1].frame))):
        if not any(_repeats(item[1].frame, other[1].frame) for other in kept):
            kept.append(item)
    # By place, not by value: the same file may be named twice.
    stays = {id(item) for item in kept}
    return [i for i in read if id(i) in stays], [i for i in read if id(i) not in stays]


def doubt_of(read: Sequence[Read], added: Sequence[int]) -> list[str]:
    """A word of doubt where files begin at one step and none repeats another: several runs?"""
    begins = Counter(
        _span(item)[0]
        for place, (item, before) in enumerate(zip(read, added, strict=True))
        if before or not place  # the others were joined
    )
    step, count = begins.most_common(1)[0]
    if count < 2:
        return []
    return [
        f"{count:,} files begin at step {step:,} and tell different things of it: they are taken "
        "as attempts of one run; if they are different runs, name one of them"
    ]


def united(frames: Sequence["polars.DataFrame"]) -> tuple["polars.DataFrame", list[int]]:
    """All rows, and what was added to the attempts of each frame.

    Files that tell other quantities of the same steps are joined, also where what they share (the
    epoch, say) is the same; files that tell the same quantities are taken as attempts, one after
    another.
    """
    import polars as pl

    whole, added = frames[0], [0]
    for frame in frames[1:]:
        common = set(whole.columns) & set(frame.columns) - {"step", "attempt", "timestamp"}
        if not common or _beside(whole, frame, sorted(common)):
            extra = frame.drop("timestamp", strict=False).drop("attempt", *common)
            extra = extra.unique("step", keep="last")
            whole = whole.join(extra, on="step", how="full", coalesce=True).sort("attempt", "step")
            whole = whole.with_columns(pl.col("attempt").fill_null(0))
            added.append(0)
            continue
        after = int(whole["attempt"].max()) + 1  # type: ignore[arg-type]
        whole = pl.concat(
            [whole, frame.with_columns((pl.col("attempt") + after).cast(pl.Int32))],
            how="diagonal_relaxed",
        )
        added.append(after)
    return whole, added


def _beside(whole: "polars.DataFrame", frame: "polars.DataFrame", common: Sequence[str]) -> bool:
    """Whether a frame tells more of the same steps: all that the two share is the same there."""
    if "loss" in common or not set(frame.columns) - set(whole.columns):
        return False
    both = frame.join(whole, on="step", suffix=" other")
    if not len(both):
        return False
    for column in common:
        mine, theirs = both[column], both[f"{column} other"]
        if not ((mine == theirs) | mine.is_null() | theirs.is_null()).all():
            return False
    return True


def _began(item: Read) -> float | None:
    frame = item[1].frame
    if "timestamp" not in frame.columns:
        return None
    first = frame["timestamp"].drop_nulls()
    return float(first[0]) if len(first) else None


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name) if part
    ]


def _span(item: Read) -> tuple[int, int]:
    steps = item[1].frame["step"]
    return int(steps.min()), int(steps.max())  # type: ignore[arg-type]


def _blind(frame: "polars.DataFrame") -> int:
    """How many losses only stand in for one."""
    return int((frame["loss"] == -1.0).sum()) if "loss" in frame.columns else 0


def _repeats(one: "polars.DataFrame", other: "polars.DataFrame") -> bool:
    """Whether ``other`` tells all that ``one`` does; it is not shorter."""
    import polars as pl

    if not set(one.columns) - {"timestamp"} <= set(other.columns):
        return False
    first = other.filter(pl.col("step") == one["step"][0])
    if not len(first):
        return False  # most files that are no repeats are told by this alone
    told = ["loss"] if "loss" in one.columns and one["loss"].count() else one.columns
    told = [column for column in told if column not in (*_KEYS, "timestamp")]
    both = one.select(*_KEYS, *told).join(other.select(*_KEYS, *told), on=_KEYS, suffix=" other")
    if len(both) < len(one):
        return False
    for column in told:
        mine, theirs = both[column], both[f"{column} other"]
        same = (mine == theirs) | mine.is_null()
        if mine.dtype.is_float():
            same |= (mine.is_nan() & theirs.is_nan()) | (mine == -1.0)
        if not same.fill_null(False).all():
            return False
    return True

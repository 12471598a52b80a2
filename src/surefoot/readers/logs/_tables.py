"""Tables of numbers: which column is the step, which rows are of one step, what is a validation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surefoot.readers.blocks import Block
from surefoot.readers.logs._records import (
    TOTALS,
    is_evaluation,
    means,
    signal_of,
    stem_of,
    step_rank,
)
from surefoot.readers.points import Item, Note, Point

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Column = tuple[Floats, Flags]

EPOCH = (1e8, 1e11)
"""Seconds since 1970 that a clock's column may hold; a thousand times as much: milliseconds."""


_NO_METRICS = frozenset((None, "timestamp", "epoch", "batch_size", "consumed_runtime"))


def known(keys: Sequence[str], said: Mapping[str, str]) -> int:
    """How many of some keys are metrics, by themselves or because the user named them."""
    named = set(said.values())
    return sum(key in named or signal_of(key) not in _NO_METRICS for key in keys)


@dataclass(slots=True)
class Rows:
    """Turns the columns of a table, taken piece by piece, into blocks of rows.

    Args:
        step_key: the column that the user says is the step; None to find it.
        count: rows taken so far.
    """

    step_key: str | None = None
    count: int = 0
    _chosen: str | None = None
    _decided: bool = False
    _last: int | None = None
    _training: bool = False
    _total: int | None = None

    def take(self, columns: Mapping[str, "Column"], line: int = 0) -> Iterator[Item]:
        """Rows that follow those taken before.

        Args:
            columns: key -> (numbers, where one was told), all of one length.
            line: of the file, of the first row.
        """
        import numpy as np

        length = max((len(told) for _, told in columns.values()), default=0)
        if not length:
            return
        if not self._decided:
            self._chosen = self._step_column(columns)
            self._decided = True
            if self._chosen is None:
                yield Note("facts", data={"steps_are": "rows"})
        steps, placed = self._steps(columns, length)
        self.count += length
        times: Floats | None = None
        kept: dict[str, Column] = {}
        mean = means(columns)
        if not any(signal_of(key) == "loss" for key in columns if key not in mean):
            mean = set()
        for key, (values, told) in columns.items():
            if key == self._chosen or key in mean or not told.any():
                continue
            if stem_of(key) in TOTALS and len(np.unique(values[told])) == 1:
                if self._total is None:
                    self._total = int(values[told][0])
                    yield Note("facts", data={"steps": self._total})
                continue
            if signal_of(key) == "timestamp":
                wall = _seconds(values, told)
                times = wall if times is None else times
                continue
            kept[key] = values, told & placed
        yield from self._rows(steps, kept, times, line)

    def _step_column(self, columns: Mapping[str, "Column"]) -> str | None:
        """The surest column of whole numbers that tells more than one thing."""
        if self.step_key is not None:
            return self.step_key if self.step_key in columns else None
        ranked = sorted((rank, key) for key in columns if (rank := step_rank(key)) is not None)
        for _, key in ranked:
            values, told = columns[key]
            numbers = values[told]
            if not len(numbers) or not _whole(numbers):
                continue
            if len(numbers) > 1 and (numbers == numbers[0]).all():
                continue  # the size of a batch, the length of the run
            return key
        return ranked[0][1] if ranked and len(columns[ranked[0][1]][0]) == 1 else None

    def _steps(
        self, columns: Mapping[str, "Column"], length: int
    ) -> tuple["npt.NDArray[np.int64]", "Flags"]:
        """The step of each row, and where it is known; a row without one is of the last step."""
        import numpy as np

        if self._chosen is None:
            return np.arange(self.count + 1, self.count + 1 + length), np.ones(length, bool)
        values, told = columns.get(self._chosen, (np.zeros(length), np.zeros(length, bool)))
        told = told & np.isfinite(values) & (np.abs(values) < 2.0**63)
        told &= np.where(told, values, 0.0) == np.floor(np.where(told, values, 0.0))
        before = np.maximum.accumulate(np.where(told, np.arange(length), -1))
        first = self._last if self._last is not None else 0
        whole = np.where(told, values, 0.0).astype(np.int64)
        steps = np.where(before >= 0, whole[np.maximum(before, 0)], first)
        placed = (before >= 0) | (self._last is not None)
        if placed[-1]:
            self._last = int(steps[-1])
        return steps, placed

    def _rows(
        self,
        steps: "npt.NDArray[np.int64]",
        columns: Mapping[str, "Column"],
        times: "Floats | None",
        line: int,
    ) -> Iterator[Item]:
        import numpy as np

        if not columns:
            return
        any_told = np.zeros(len(steps), bool)
        training = np.zeros(len(steps), bool)
        evaluated = np.zeros(len(steps), bool)
        for key, (_, told) in columns.items():
            any_told |= told
            if is_evaluation([key]):
                evaluated |= told
            elif signal_of(key) not in _BESIDE:
                training |= told
        self._training |= bool(training.any())
        at = np.flatnonzero(any_told)
        if not len(at):
            return
        group = _groups(steps[at], [(values[at], told[at]) for values, told in columns.values()])
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        first = at[starts]
        alone = np.logical_and.reduceat((evaluated & ~training)[at], starts)
        told_rows: dict[str, tuple[npt.NDArray[np.int64], Floats]] = {}
        for key, (values, told) in columns.items():
            rows, numbers = group[told[at]], values[at][told[at]]
            if len(first) < len(at):
                rows, once = np.unique(rows, return_index=True)
                numbers = numbers[once]
            told_rows[key] = rows, numbers
        of_row = steps[first]
        when = None if times is None else times[first]
        if not self._training:
            alone = np.zeros(
                len(first), bool
            )  # a table of nothing but validation results: they are its history
        begin = 0
        for row in [*np.flatnonzero(alone).tolist(), len(first)]:
            if row > begin:
                yield _block(of_row, told_rows, when, begin, row, line + int(first[begin]))
            if row < len(first):
                values_of = _block(of_row, told_rows, when, row, row + 1, 0).values_of(0)
                time = None if when is None or np.isnan(when[row]) else float(when[row])
                yield Point(
                    int(of_row[row]), values_of, line + int(first[row]), time=time, evaluation=True
                )
            begin = row + 1


_BESIDE = frozenset(("epoch", "timestamp", "consumed_samples", "consumed_tokens", None))


def _groups(steps: "npt.NDArray[np.int64]", columns: Sequence["Column"]) -> "npt.NDArray[np.int64]":
    """Number of the row that each line goes to: lines of one step in a row are one, if they can be.

    Loggers write a line for training and one for validation of the same step; two lines that tell
    different numbers of one column are two rows.
    """
    import numpy as np

    same = np.flatnonzero(steps[1:] == steps[:-1]) + 1
    new = np.ones(len(steps), bool)
    if len(same):
        told = np.column_stack([flags for _, flags in columns])
        values = [numbers for numbers, _ in columns]

        def row(line: int) -> dict[int, str]:
            return {at: str(values[at][line]) for at in np.flatnonzero(told[line]).tolist()}

        held: dict[int, str] = {}
        last = -2
        for line in same.tolist():
            held = row(line - 1) if line - 1 != last else held
            mine, last = row(line), line
            if all(held.get(at, value) == value for at, value in mine.items()):
                new[line] = False
                held.update(mine)
            else:
                held = mine
    return np.cumsum(new) - 1


def _block(
    steps: "npt.NDArray[np.int64]",
    columns: Mapping[str, tuple["npt.NDArray[np.int64]", "Floats"]],
    times: "Floats | None",
    begin: int,
    end: int,
    line: int,
) -> Block:
    values: dict[str, Floats] = {}
    rows: dict[str, npt.NDArray[np.int64]] = {}
    for key, (where, numbers) in columns.items():
        low, high = where.searchsorted([begin, end])
        if high - low == end - begin:
            values[key] = numbers[low:high]
        elif high > low:
            values[key] = numbers[low:high]
            rows[key] = where[low:high] - begin
    return Block(
        steps[begin:end], values, rows, line, times=None if times is None else times[begin:end]
    )


def _whole(numbers: "Floats") -> bool:
    import numpy as np

    finite = numbers[np.isfinite(numbers)]
    return bool(len(finite) == len(numbers) and (finite == np.floor(finite)).all())


def _seconds(values: "Floats", told: "Flags") -> "Floats":
    """Seconds since 1970, NaN where a column does not hold them."""
    import numpy as np

    seconds = np.where(told, values, np.nan)
    seconds = np.where(seconds > EPOCH[1], seconds / 1000.0, seconds)
    return np.where((seconds > EPOCH[0]) & (seconds < EPOCH[1]), seconds, np.nan)

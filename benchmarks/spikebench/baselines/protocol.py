"""What every baseline is: fed a record at a time, it says whether it is alarmed."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from surefoot.records import StepRecord


class Baseline(ABC):
    """A rule of another trainer or monitor, re-implemented from its formula.

    A baseline sees what its original sees, in the order it would see it; a signal that a record
    does not hold is not shown to it. It keeps the original's faults: a NaN that poisons a window, a
    reference that is never refreshed.

    Attributes:
        name: as in the table.
        watches: the signals it was made for; where none of them is recorded, it cannot be scored.
        setting: its threshold and where that comes from.
    """

    name: str
    watches: tuple[str, ...]
    setting: str

    @abstractmethod
    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""


def number(record: StepRecord, signal: str) -> float | None:
    """The value of a scalar signal, NaN and infinities included; None if it was not recorded."""
    value = record.values.get(signal)
    return None if value is None else float(value)


def ratio(above: float, below: float) -> float:
    """``above / below`` as the originals' tensors divide: by zero it is infinite or NaN."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(np.float64(above) / np.float64(below))


class Window:
    """The newest ``size`` values, as an original keeps them: a NaN in it stays until it falls out.

    Args:
        size: number of values kept.
    """

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size)
        self.count = 0

    def __len__(self) -> int:
        return min(self.count, len(self.values))

    def push(self, value: float) -> None:
        """Add a value; the oldest falls out of a full window."""
        self.values[self.count % len(self.values)] = value
        self.count += 1

    def moments(self, *, unbiased: bool = False) -> tuple[float, float]:
        """Mean and standard deviation of what is kept; NaN if a NaN is among it."""
        kept: Any = self.values[: len(self)]
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(kept.mean())
            squares = float(((kept - mean) ** 2).sum())
        return mean, math.sqrt(squares / (len(kept) - unbiased)) if squares == squares else math.nan

    def mean(self) -> float:
        """Mean of what is kept."""
        with np.errstate(invalid="ignore", over="ignore"):
            return float(self.values[: len(self)].mean())

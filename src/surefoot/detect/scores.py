"""What the bank of signals says of a record."""

from dataclasses import dataclass
from typing import NamedTuple


class Outlier(NamedTuple):
    """A signal beyond its threshold.

    Attributes:
        name: of the signal.
        score: signed; 1 = the threshold.
        value: in its unit.
        since: step at which it left its band.
    """

    name: str
    score: float
    value: float
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the bank says of a record.

    Attributes:
        top: largest absolute score of it; 1 is an outlier. 0 if all signals are well in their band.
        name: the signal that has it.
        out: signals with a score of 1 or more.
        outliers: these signals, furthest first, at most 32.
        opened: signals that are out for sure now and were not before, at most 32: two values in a
            row on one side, or one that is absurd. The stated rate of false alarms is that of
            records with any; one loud record that leaves no trace is an outlier and no alarm.
        zeros: signals that are exactly 0 and never were before, at most 32.
        nonfinite: signals that are NaN or infinite, having been finite before, at most 32.
        changes: announced changes, of ``rate``, ``batch``, ``length``, ``data``.
    """

    top: float = 0.0
    name: str = ""
    out: int = 0
    outliers: tuple[Outlier, ...] = ()
    opened: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    nonfinite: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

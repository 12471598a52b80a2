"""Finding and Incident: what is told to people, and the trouble it is about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a finding is. Steps are optimizer steps of that attempt, first and last inclusive."""

    run: str | None = None
    attempt: int | None = None
    steps: tuple[int, int] | None = None
    signal: str | None = None
    layer: str | None = None
    field: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing told to people: code, place, the numbers it rests on, what to do, the source.

    Attributes:
        code: of the table in :mod:`surefoot.codes`, e.g. ``SPK001``.
        name: the code's short name, e.g. ``spike-recovered``.
        severity: ``info``, ``warning`` or ``error``; ``error`` makes a command exit with 1.
        place: where.
        evidence: the numbers, by name; JSON values.
        message: what it means, in one sentence that holds the numbers.
        actions: what to do, in order, each an instruction that can be followed.
        references: author, year, arXiv id or address.
    """

    code: str
    name: str
    severity: Severity
    place: Place = field(default_factory=Place)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    actions: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A trouble with a beginning and, later, an end.

    Attributes:
        id: stable within the run, e.g. ``"a0-s01234"`` (attempt and alarm step).
        alarm_step: the step at which it was noticed.
        onset_step: best estimate of the first abnormal step.
        onset_interval: first and last step the onset may have had.
        leading_signal: the signal that left its band first.
        peak_step: step of the largest excess so far.
        peak_nats: largest excess over the trend, in nats (NaN if the loss was not finite).
        recovered_step: first step back on the trend; None while open or if it never came back.
        closed_code: the code under which it was closed; None while open.
    """

    id: str
    alarm_step: int
    onset_step: int
    onset_interval: tuple[int, int]
    leading_signal: str
    peak_step: int
    peak_nats: float
    recovered_step: int | None = None
    closed_code: str | None = None

    @property
    def last_healthy_step(self) -> int:
        """The step before the onset interval."""
        return self.onset_interval[0] - 1

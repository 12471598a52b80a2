"""StepRecord and Verdict: one step's signals, and what a detector says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.records.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """The signals of one optimizer step, on the host.

    Attributes:
        step: optimizer steps are counted from 1; step k's loss is of the weights after k-1 updates.
        attempt: 0 for the first start of the run, one more after each rewind or resume.
        values: scalar signals by catalogue name; a signal not measured at this step is absent.
        places: per-place signals by catalogue name: a float32 array, one value for each place in
            the order that ``places.json`` of the run (or the caller's own list) gives.
    """

    step: int
    attempt: int = 0
    values: Mapping[str, float | int] = field(default_factory=dict)
    places: Mapping[str, Any] = field(default_factory=dict)


Status = Literal["warming_up", "healthy", "incident", "unusable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a detector says of one step.

    Attributes:
        step: the step judged.
        status: ``incident`` while an incident is open, ``unusable`` if it cannot be judged.
        scores: the numbers it rests on, e.g. ``{"excess_nats": 0.4, "z": 7.1}``.
        findings: told now: an incident opened, closed or changed its code. Usually empty.
        halt: whether the findings are of a kind on which a run stops by default.
    """

    step: int
    status: Status
    scores: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    halt: bool = False

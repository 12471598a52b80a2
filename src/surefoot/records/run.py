"""Run: what a run did, whoever trained it; and Diff: what two runs differ in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from surefoot.records.spec import TrainSpec

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the ledger.

    ``kind`` is ``started``, ``resumed``, ``finding``, ``action``, ``checkpoint``, ``evaluation``,
    ``update_skipped``, ``halted`` or ``finished``; ``data`` holds what that kind needs, as JSON.
    """

    kind: str
    step: int | None = None
    attempt: int = 0
    time: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """A checkpoint of a run: ``status`` is ``provisional``, ``confirmed`` or ``quarantined``."""

    step: int
    path: str
    status: str = "provisional"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run did.

    Attributes:
        name: the folder's or the log's name.
        spec: what it was asked to do, as far as known.
        environment: versions, devices, flags, git commit, as found at run time.
        signals: polars frame of the winning history, sorted by ``step``: columns ``step``,
            ``attempt``, and one a signal; per-place signals are list columns, named as
            ``grad_norm@places`` (``grad_norm`` is the total).
        places: for each per-place signal, the names in the order of its lists.
        events: the ledger.
        checkpoints: known checkpoints, by step.
        problems: files or lines that could not be used, one sentence each.
        path: where it was read from.
        superseded: rows that a later attempt went over, as ``signals``, sorted by (attempt, step);
            None if there are none or they are kept elsewhere.
        reading: how another trainer's log was read, as JSON values: ``format``, ``sure``,
            ``second``, ``files``, ``attempts``, ``overlaps``, ``fields`` (signal -> the key it was
            printed under, the factor into the catalogue's unit), ``facts``. Empty for a run folder.
    """

    name: str
    spec: TrainSpec = field(default_factory=TrainSpec)
    environment: Mapping[str, Any] = field(default_factory=dict)
    signals: "polars.DataFrame"
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    checkpoints: tuple[CheckpointInfo, ...] = ()
    problems: tuple[str, ...] = ()
    path: str | None = None
    superseded: "polars.DataFrame | None" = None
    reading: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two runs differ; ``kind`` is ``asked`` or ``done``."""

    kind: str
    field: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What two runs differ in, asked and done."""

    a: str
    b: str
    differences: tuple[Difference, ...] = ()

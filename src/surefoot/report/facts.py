"""What a report says of a run as a whole: its status and the numbers to name first.

Nothing is estimated here: each number is a row of the table or an event of the ledger.
"""

import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.records import CheckpointInfo, Event, Run
from surefoot.report.text import number, plain

if TYPE_CHECKING:
    from surefoot.report.columns import Curve

QUIET_AFTER = 120.0
"""Seconds without a write after which a run without an end or a lock counts as killed."""

_STARTS = ("started", "resumed")
_ENDS = ("finished", "halted", "interrupted", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a run stands.

    Attributes:
        word: ``finished``, ``halted``, ``interrupted``, ``failed``, ``running``, ``killed`` or
            ``unknown`` (another trainer's log has no ledger).
        detail: why, in a few words; "" if there is no more to say.
    """

    word: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a checkpoint stands: its status, or ``resumable``, and why ("" if nothing is known)."""

    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value and the step it belongs to."""

    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The numbers of a run to name first; None for what it does not have.

    Attributes:
        status: how it stands.
        rows: steps recorded.
        first_step: the first of them.
        last_step: the last of them.
        planned_steps: steps it was asked to make.
        loss_first: first finite training loss, nats.
        loss_last: last training loss, nats, finite or not.
        loss_best: lowest finite training loss, nats.
        validation_last: last validation loss, nats.
        validation_best: lowest finite validation loss, nats.
        tokens_per_second: median over the steps.
        consumed_tokens: tokens consumed so far.
        restarts: steps after which the run was resumed.
        not_finite: steps whose loss was NaN or infinite.
        gaps: which rows are missing, in one sentence; "" if none is.
        skipped: updates that were skipped, as far as recorded.
        grad_norm: whether a gradient norm is recorded.
    """

    status: Status
    rows: int
    first_step: int | None
    last_step: int | None
    planned_steps: int | None
    loss_first: Point | None
    loss_last: Point | None
    loss_best: Point | None
    validation_last: Point | None
    validation_best: Point | None
    tokens_per_second: float | None
    consumed_tokens: int | None
    restarts: tuple[int, ...]
    not_finite: int
    gaps: str
    skipped: int = 0
    grad_norm: bool = False

    def progress(self) -> str:
        """``350 of 500``, or what of it is known."""
        done = number(self.last_step or 0)
        return done if self.planned_steps is None else f"{done} of {self.planned_steps:,}"

    def span(self) -> str:
        """``31,194 to 31,251 (58 recorded)``, of a run that another trainer's log tells."""
        if self.first_step is None or self.last_step is None:
            return "none"
        planned = "" if self.planned_steps is None else f", {self.planned_steps:,} planned"
        return f"{self.first_step:,} to {self.last_step:,} ({self.rows:,} recorded{planned})"


def facts(run: Run) -> Facts:
    """Gather the facts of ``run``."""
    import numpy as np

    from surefoot.report.columns import curve
    from surefoot.runs.gaps import TOLD

    loss, validation = curve(run, "loss"), curve(run, "validation_loss")
    speed, tokens = curve(run, "tokens_per_second"), curve(run, "consumed_tokens")
    steps = curve(run, "step")
    finite_speed = speed.values[np.isfinite(speed.values)] if speed else np.array([])
    return Facts(
        status=status(run),
        rows=run.signals.height,
        first_step=int(steps.steps[0]) if steps else None,
        last_step=int(steps.steps[-1]) if steps else None,
        planned_steps=run.spec.schedule.steps,
        loss_first=_first(loss),
        loss_last=_last(loss),
        loss_best=_best(loss),
        validation_last=_last(validation),
        validation_best=_best(validation),
        tokens_per_second=float(np.median(finite_speed)) if len(finite_speed) else None,
        consumed_tokens=int(tokens.values[-1]) if tokens else None,
        restarts=tuple(e.step for e in run.events if e.kind == "resumed" and e.step is not None),
        not_finite=int((~np.isfinite(loss.values)).sum()) if loss else 0,
        skipped=_skipped(run),
        grad_norm=curve(run, "grad_norm") is not None,
        gaps=next((plain(told) for told in run.problems if told.startswith(TOLD)), ""),
    )


def _skipped(run: Run) -> int:
    """Updates skipped: told step by step, else as the trainer counts them between records."""
    for name in ("update_skipped", "skipped_iterations"):
        if name in run.signals.columns:
            total = run.signals[name].fill_null(0).sum()
            if total and total > 0:
                return int(total)
    return 0


def status(run: Run, now: float | None = None) -> Status:
    """How the run stands, by its ledger.

    One without an end is running if a trainer holds its lock, else killed. Where the file system
    has no locks, it counts as running until :data:`QUIET_AFTER` seconds passed without a write.

    Args:
        run: any run.
        now: seconds since the epoch; the present if None.
    """
    from surefoot.runs.lock import is_held

    event = _last_of(run.events, (*_STARTS, *_ENDS))
    if event is None:
        return Status(word="unknown", detail="no ledger says how it ended")
    if event.kind == "interrupted":
        return Status(word=event.kind, detail=_request(event))
    if event.kind in _ENDS:
        parts = [f"at step {event.step:,}"] if event.step is not None else []
        if event.data.get("postmortem"):
            parts.append(f"see {plain(event.data['postmortem'])}")
        if event.data.get("error"):
            parts.append(plain(event.data["error"]))
        return Status(word=event.kind, detail=", ".join(parts))
    written = _last_written(run.path)
    if run.path is None or written is None:
        return Status(word="killed", detail="the ledger has no end")
    # A clock time, not an age: a report is read long after it was written.
    at = datetime.fromtimestamp(written, tz=UTC).strftime("last written %Y-%m-%d %H:%M:%S UTC")
    running = is_held(Path(run.path))
    if running is None:
        running = (time.time() if now is None else now) - written <= QUIET_AFTER
    if running:
        return Status(word="running", detail=at)
    return Status(word="killed", detail=f"the ledger has no end; {at}")


def standing(info: CheckpointInfo) -> Standing:
    """How a checkpoint stands, in the words of people.

    One that was saved because somebody stopped the run is healthy: ``--resume`` goes on from it.
    It is quarantined all the same, as an undisturbed run would not have made it.
    """
    if info.status == "quarantined" and info.reason == "signal":
        return Standing(word="resumable", reason="saved when the run was stopped on request")
    return Standing(word=plain(info.status), reason=plain(info.reason or ""))


def flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping by dotted path."""
    found: dict[str, object] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{path}."))
        else:
            found[path] = value
    return found


def _request(event: Event) -> str:
    """How a run was stopped from outside, and how it goes on."""
    number_of = event.data.get("signal")
    try:
        name = f" ({signal.Signals(number_of).name})"  # type: ignore[arg-type]
    except ValueError:  # also of None, and of what no signal is here
        name = ""
    where = "" if event.step is None else f" at step {event.step:,}"
    if number_of is None:  # a loop of somebody's own: it goes on in its own way
        return f"stopped on request{where}"
    return f"stopped on request{name}{where}; go on with --resume"


def _last_of(events: Iterable[Event], kinds: tuple[str, ...]) -> Event | None:
    return next((e for e in reversed(tuple(events)) if e.kind in kinds), None)


def _last_written(path: str | None) -> float | None:
    """When the ledger or the signals were last written, seconds since the epoch."""
    if path is None:
        return None
    times = []
    for name in ("events.jsonl", "signals", "signals/journal"):
        try:
            times.append((Path(path) / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def _first(curve: "Curve | None") -> Point | None:
    import numpy as np

    if curve is None or not np.isfinite(curve.values).any():
        return None
    return _point(curve, int(np.isfinite(curve.values).argmax()))


def _last(curve: "Curve | None") -> Point | None:
    return _point(curve, -1) if curve else None


def _best(curve: "Curve | None") -> Point | None:
    import numpy as np

    if curve is None or not np.isfinite(curve.values).any():
        return None
    return _point(curve, int(np.where(np.isfinite(curve.values), curve.values, np.inf).argmin()))


def _point(curve: "Curve", row: int) -> Point:
    return Point(step=int(curve.steps[row]), value=float(curve.values[row]))

"""CKP001: the learning rate begins anew at a restart although the run was past its warm-up."""

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.detect.monitors._trail import Trail
from surefoot.records import Event, Finding

FALL = 20.0
"""A fall by so much in one record of a restart is told at once; decay steps are of 2 to 10."""
SUSPECT = 3.0
"""A smaller one is told when the next record shows that it rises from zero at the restart."""
MOVED = 1.2
"""Factor from which a rate that equals the schedule's beginning is not the one that was due."""
SAME = 1e-3
ENOUGH = 3
STARTS = 4
GAP = 20
SETTLED = 0.15
STEADY = 0.3


class RateRestart(Plain):
    """Holds the first rates after a restart against what was due at their steps.

    What tells a lost schedule from a planned re-warm: a re-warm starts from where the rate is and
    goes up; a lost schedule falls, in one record, to where a warm-up starts, or jumps to exactly
    what the schedule began with, or to its peak. Decay followed by a re-warm (WSD) never falls in
    one record from a steady rate. A change that was announced (``data_phase`` changes, or the
    ledger holds an action) is taken as planned.
    """

    name = "rate-restart"
    fields = ("step", "attempt", "rate", "before", "peak", "starts", "every", "phase", "suspect",
              "note", "planned", "told")  # fmt: skip

    def __init__(self) -> None:
        self.step: int | None = None
        self.attempt = 0
        self.rate = 0.0
        self.before = 0.0
        self.peak = 0.0
        self.starts: list[Any] = []
        self.every = 1
        self.phase: float | None = None
        self.suspect: list[Any] | None = None
        self.note = ""
        self.planned = False
        self.told = False
        self._trail = Trail()

    def tell(self, event: Event) -> None:
        """Keep what a restart says of itself; an action on the run makes a change planned."""
        if event.kind in ("resumed", "warning"):
            notes = [v for v in event.data.values() if isinstance(v, str) and " " in v]
            kept = [self.note] if self.note and event.kind == "warning" else []
            self.note = "; ".join([*kept, *notes])[:400]
        elif event.kind == "action":
            self.planned = True

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the rate of a row."""
        rate = finite(row.values, "learning_rate")
        if rate is None or rate <= 0.0:
            return NOTHING  # 0 is printed for a skipped update: it says nothing of the schedule
        found: Sequence[Finding] = NOTHING
        resumed = self.step is not None and (row.attempt > self.attempt or row.step <= self.step)
        phase = row.values.get("data_phase")
        if phase is not None and phase - phase == 0.0:
            if self.phase is not None and phase != self.phase:
                self.planned = True
            self.phase = phase
        if self.suspect is not None:
            found = self._confirm(row, rate)
        if resumed:
            found = found or self._restarted(row, rate)
            self._trail.forget_from(row.step)
            self.attempt = row.attempt
        elif self.step is not None and not found:
            self._unmarked(row, rate)
        if (self.step is None and row.step <= 1) or 0 < len(self.starts) < STARTS:
            self.starts.append([row.step, rate])
        if self.step is not None and not resumed:
            self.every = row.step - self.step
        self._trail.add(row.step, rate)
        self.step, self.before, self.rate = row.step, self.rate, rate
        self.peak = max(self.peak, rate)
        return found

    def _restarted(self, row: Row, rate: float) -> Sequence[Finding]:
        due, self.suspect = self._trail.due(row.step), None
        planned, self.planned = self.planned, False
        self.told = False
        if due is None or due <= 0.0 or len(self._trail) < ENOUGH or planned:
            return NOTHING
        below, above = self._trail.around(row.step)
        last = row.step - 1 if below is None else below[0]
        if above is None and row.step - last > GAP * self.every:
            return NOTHING  # what the schedule did in between is not known
        if below is not None and above is not None:
            low, high = sorted((below[1], above[1]))
            if low / MOVED <= rate <= high * MOVED:
                return NOTHING  # a step of the schedule lies between the two that are known
        # At most two records into its schedule: later rates of a warm-up are met by chance.
        begins = [
            x
            for at, x in self.starts
            if at <= 2 * self.every and x > 0.0 and abs(rate - x) <= SAME * x
        ]
        if self.peak > 0.0 and abs(rate - self.peak) <= 5 * SAME * self.peak:
            begins.append(self.peak)  # a schedule without a warm-up, or with its warm-up kept
        moved = rate > MOVED * due or rate < due / MOVED
        if 0.0 < rate <= due / FALL or (begins and moved):
            return [self._finding(row, rate, due, row.step, begins=bool(begins))]
        if rate <= due / SUSPECT:
            self.suspect = [row.step, rate, due, last, True]
        return NOTHING

    def _unmarked(self, row: Row, rate: float) -> None:
        """A fall from a steady, high rate in the middle of a run: wait for how it goes on."""
        steady = self.before > 0.0 and abs(self.rate / self.before - 1.0) <= STEADY
        high = self.rate >= SETTLED * self.peak
        if rate <= self.rate / FALL and steady and high and len(self._trail) >= ENOUGH:
            self.suspect = [row.step, rate, self.rate, self.step, False]

    def _confirm(self, row: Row, rate: float) -> Sequence[Finding]:
        """Whether a suspected fall goes on as a warm-up that began with the restart."""
        assert self.suspect is not None
        step, first, due, last, marked = self.suspect
        self.suspect = None
        slope = (rate - first) / (row.step - step) if row.step > step else 0.0
        if slope <= 0.0 or self.told:
            return NOTHING
        zero = step - first / slope
        gap = max(1, step - last)
        if zero < last - gap or zero > step:
            return NOTHING
        resumed = step if marked else None
        return [self._finding(row, rate, due, resumed, begins=False, first=step)]

    def _finding(
        self,
        row: Row,
        rate: float,
        due: float,
        resumed: int | None,
        *,
        begins: bool,
        first: int | None = None,
    ) -> Finding:
        self.told = True
        where = "after the restart" if resumed is not None else "without a restart being marked"
        ratio = due / rate if rate < due else rate / due
        how = f"a factor of {ratio:.3g} too {'low' if rate < due else 'high'}"
        own = ": what the schedule began with" if begins else ""
        note = f" (said of the restart: {self.note})" if self.note else ""
        return finding(
            "CKP001",
            f"the learning rate is {rate:.4g} at step {row.step} where about {due:.4g} was due "
            f"{where}, {how}{own}: the schedule began anew while the steps went on{note}",
            row,
            first=first,
            cause="resume-state",
            signal="learning_rate",
            evidence={
                "learning_rate": rate,
                "due": due,
                "factor": rate / due,
                "resumed_step": resumed,
                "peak": self.peak,
                "note": self.note,
            },
            actions=(
                "stop now, before the loss shows it: the warm-up would run again, and on to a peak "
                "that this part of the schedule should not have",
                "look in the start-up log for scheduler or custom state that was not loaded, set "
                "the schedule to the step of the checkpoint, and resume once more",
                "if a re-warm was planned here, announce it (`data_phase`, or the schedule asked)",
            ),
            references=("IDEFICS-80B chronicle, huggingface/m4-logs tr-190-80b (exp9, exp10)",),
        )

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {**super().state_dict(), "trail": self._trail.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        super().load_state_dict(state)
        self._trail = Trail(state.get("trail"))

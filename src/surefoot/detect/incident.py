"""An open incident: what it has cost so far, whether it came back, and how it ends if it does not.

While it is open the course is frozen at what was healthy before the onset, so that the trouble is
always measured against health. It ends in one of three ways: back on the course for a while; on a
new, stable level after the horizon; or diverging.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any

from surefoot.records import Incident, number_to_json

STREAK = 16
STREAK_AT_END = 4
BAND = 3.5
RISE_NATS = 0.5
UNIFORM_NATS = 1.0
UNTRAINED_NATS = 0.25
PATIENCE = 4


@dataclass(slots=True)
class OpenIncident:
    """What is known of an incident while it lasts. Values are of ``signal``.

    Attributes:
        id: attempt and alarm step, e.g. ``a0-s01234``.
        alarm_step: step at which it was noticed.
        onset_step: best estimate of the first abnormal step.
        onset_interval: first and last step the onset may have had.
        leading_signal: what left its course first.
        code: code under which it was last told.
        signal: what its end is judged by: ``loss``, or ``grad_norm`` (logarithm) without a loss.
        level: the course before the onset; None if there was none.
        noise: standard deviation of single values before the onset.
        tolerance: how far above the course the mean of a streak may lie to count as back.
        last_step: the newest step seen.
        peak_step: step of the largest excess.
        horizon: records after which it is judged.
        slope: nats a record at which the signal was falling, at most 0.
        age: records the course was known for; the fall slows down as a power law does.
        known: whether anything healthy was seen before it.
        every: steps between records before the onset.
        elapsed: records since the onset.
        peak: largest excess over ``level``.
        cost: sum of the excess over the course, nat times step.
        records: usable records since the alarm.
        streak: records in a row back in the band, the newest included.
        misses: records in a row out of the band, the newest included.
        back_step: step of the first of the streak.
        recent: the newest 16 usable records: step, value, log gradient norm.
        nonfinite_step: first step at which anything was not finite.
        nonfinite: by signal, the first step at which it was not finite and the value in words.
        finite_step: first usable record since the last that was not finite.
        unskipped: whether the update of a record that was not finite was made, or may have been.
        window: the newest values, for the judgement at the horizon.
        level_streak: records in a row no higher than the band about ``level``.
        level_back_step: step of the first of them.
        moved_from: where the loss ran when a change of the data was announced; None if none was.
        moved_left: records until it is known how far that moved the loss.
        moved: whether an announced change moved the level.
    """

    id: str
    alarm_step: int
    onset_step: int
    onset_interval: tuple[int, int]
    leading_signal: str
    code: str
    signal: str
    level: float | None
    noise: float
    tolerance: float
    last_step: int
    peak_step: int
    horizon: int
    slope: float = 0.0
    age: int = 1
    known: bool = True
    every: int = 1
    elapsed: int = 0
    peak: float = 0.0
    cost: float = 0.0
    records: int = 0
    streak: int = 0
    misses: int = 0
    back_step: int = 0
    recent: deque[tuple[int, float, float | None]] = field(default_factory=deque)
    nonfinite_step: int | None = None
    nonfinite: dict[str, tuple[int, str]] = field(default_factory=dict)
    finite_step: int | None = None
    unskipped: bool = False
    window: deque[float] = field(default_factory=deque)
    level_streak: int = 0
    level_back_step: int = 0
    moved_from: float | None = None
    moved_left: int = 0
    moved: bool = False

    @property
    def loss_nonfinite(self) -> str | None:
        """``nan``, ``inf`` or ``-inf`` if the loss was."""
        return self.nonfinite["loss"][1] if "loss" in self.nonfinite else None

    def single(self) -> bool:
        """Whether it was one value far out, or two, rather than a course that moved."""
        return self.back_step - self.onset_step <= 2 and self.peak > 2 * BAND * self.noise

    def course(self) -> float:
        """Where the signal would run now without the incident; 0 if nobody knows."""
        if self.level is None:
            return 0.0
        # Seven tenths of the fall: a spike that comes back to just above the course came back.
        return self.level + 0.7 * self.slope * self.age * math.log1p(self.elapsed / self.age)

    def excess(self) -> float | None:
        """Median of the newest three values above the course; None if nobody knows."""
        if self.level is None or not self.recent:
            return None
        newest = [value for _, value, _ in self.recent][-3:]
        return median(newest) - self.course()

    def add(self, step: int, value: float, log_grad: float | None) -> None:
        """A usable record of the incident."""
        self.elapsed += 1
        excess = 0.0
        if self.level is not None:
            excess = value - self.course()
            if not self.moved_left:
                self._against_level(step, value - self.level)
        if self.signal == "loss":
            # Within a hole in the records nobody knows how high it was.
            self.cost += max(0.0, excess) * min(max(1, step - self.last_step), 2 * self.every)
        if self.nonfinite and self.finite_step is None:
            self.finite_step = step
        self.last_step = step
        self.records += 1
        self.window.append(value)
        if len(self.window) > self.horizon // 2:
            self.window.popleft()
        self.recent.append((step, value, log_grad))
        if len(self.recent) > STREAK:
            self.recent.popleft()
        if self.moved_left:
            self._move()
            return
        if excess > BAND * self.noise:
            # One value somewhat out of the band does not end a streak.
            self.misses += 1
            if self.misses > 1 or excess > 2 * BAND * self.noise:
                self.streak = 0
        else:
            self.misses = 0
            self.streak += 1
            if self.streak == 1:
                self.back_step = step

    def _against_level(self, step: int, above: float) -> None:
        """Keep how the signal stands to the level that it had, whatever its course would be now."""
        if above > self.peak:
            self.peak = above
            if "loss" not in self.nonfinite:
                self.peak_step = step
        if above > BAND * self.noise:
            self.level_streak = 0
            return
        self.level_streak += 1
        if self.level_streak == 1:
            self.level_back_step = step

    def announced(self, kind: str, factor: float) -> None:
        """The run says that it changed its batch, or its data: then the level moves, too.

        By as much as the loss moves within four records.
        """
        self.noise *= max(1.0, factor)
        if kind != "data":
            return
        if self.level is not None and len(self.recent) >= STREAK_AT_END:
            self.moved_from = median(value for _, value, _ in list(self.recent)[-STREAK_AT_END:])
            self.moved_left = STREAK_AT_END

    def _move(self) -> None:
        self.moved_left -= 1
        if self.moved_left or self.moved_from is None or self.level is None:
            return
        now = median(value for _, value, _ in list(self.recent)[-STREAK_AT_END:])
        self.level += now - self.moved_from
        self.tolerance += self.noise  # the error of a difference of two means of four
        self.moved_from, self.records, self.moved = None, 0, True
        self.window.clear()
        self.hold()

    def pass_by(self, step: int) -> None:
        """A record without a value, of a run whose loss is not logged: time passes."""
        self.elapsed += 1
        self.records += 1
        self.last_step = step
        self.streak += 1
        if self.streak == 1:
            self.back_step = step

    def hold(self) -> None:
        """Another signal is still off its course: what has come back so far does not count."""
        self.streak = self.level_streak = 0

    def not_finite(self, step: int, signal: str, value: float, skipped: bool = False) -> None:
        """A record in which ``signal`` was NaN or infinite; it could not be judged."""
        if self.nonfinite_step is None:
            self.nonfinite_step = step
        if signal == "loss" and "loss" not in self.nonfinite:
            self.peak_step = step
        self.nonfinite.setdefault(signal, (step, str(number_to_json(value))))
        self.unskipped = self.unskipped or not skipped
        self.finite_step = None
        self.last_step = step
        self.elapsed += 1
        self.records = 0
        self.hold()
        self.recent.clear()
        self.window.clear()

    def recovered_step(self, at_end: bool = False) -> int | None:
        """First step back on the course, once the last 16 records agree; else None.

        At the end of the data, when no more will come, four records are enough.
        """
        if at_end and STREAK_AT_END <= self.streak < STREAK:
            records = max(STREAK_AT_END, self.streak // 2)
            values = [value for _, value, _ in self.recent][-records:]
            slack = self.tolerance * math.sqrt(STREAK / records)
            back = self.level is None or fmean(values) - self.course() <= slack
            return self.back_step if back else None
        if self.streak < STREAK:
            return None
        if self.level is not None and self.recent:
            mean = fmean(value for _, value, _ in self.recent)
            if mean - self.course() > self.tolerance:
                # In the band, yet above the course on the average: not back before that changes.
                self.streak, self.back_step = STREAK - 1, self.recent[1][0]
                return None
        return self.back_step

    def knows_nothing(self, uniform: float | None) -> bool:
        """Whether, after a real spike, the loss is that of a model which has learned nothing.

        Early in a run the course itself lies near ln V, and a model that has collapsed for good
        would count as back on it.

        Args:
            uniform: loss of a uniform guess, ln V, if known.
        """
        if uniform is None or self.signal != "loss" or self.peak < RISE_NATS or not self.recent:
            return False
        return fmean(value for _, value, _ in self.recent) >= uniform - UNTRAINED_NATS

    def outcome(self, uniform: float | None, at_end: bool = False) -> str | None:
        """``SPK002``, ``SPK003`` or None (too early to say), for an incident that did not recover.

        ``SPK001``, if it is no higher than before, though not on the course it was expected to
        take: a course that falls steeply when an incident begins may be carried on too far, and
        what runs no higher has not settled on a higher level.

        Args:
            uniform: loss of a uniform guess, ln V, if known.
            at_end: no more records come: judge by fewer.
        """
        horizon = self.horizon // 2 if at_end else self.horizon
        least = 2 * STREAK if at_end else horizon
        if self.records < least or self.level is None or len(self.window) < 2:
            return None
        values = list(self.window)
        half = len(values) // 2
        earlier, later = median(values[:half]), median(values[half:])
        spread = fmean(abs(value - later) for value in values[half:])
        change = max(self.noise, 1.25 * spread, 0.02)
        if self.knows_nothing(uniform):
            return "SPK003"
        no_higher = self.level_streak >= STREAK and later <= self.level
        if self.signal == "loss" and not no_higher and later - self.course() >= RISE_NATS:
            near_uniform = uniform is not None and later >= uniform - UNIFORM_NATS
            if near_uniform or later > earlier + change:
                return "SPK003"
        if self.records < horizon:
            return None
        if no_higher:
            return "SPK001"
        patient = self.records < PATIENCE * horizon
        return None if patient and abs(later - earlier) > change else "SPK002"

    def new_level(self) -> tuple[float, float]:
        """Median of the newest quarter of the horizon, and the noise about it."""
        values = list(self.window)[len(self.window) // 2 :]
        level = median(values)
        return level, 1.25 * fmean(abs(value - level) for value in values)

    def record(self, recovered: int | None = None, closed: str | None = None) -> Incident:
        """The incident as the public value."""
        peak = self.peak if self.signal == "loss" else 0.0
        return Incident(
            id=self.id,
            alarm_step=self.alarm_step,
            onset_step=self.onset_step,
            onset_interval=self.onset_interval,
            leading_signal=self.leading_signal,
            peak_step=self.peak_step,
            peak_nats=float(self.loss_nonfinite) if self.loss_nonfinite else peak,
            recovered_step=recovered,
            closed_code=closed,
        )

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        state = asdict(self)
        state["onset_interval"] = list(self.onset_interval)
        state["recent"] = [list(item) for item in self.recent]
        state["window"] = list(self.window)
        state["nonfinite"] = {name: list(told) for name, told in self.nonfinite.items()}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "OpenIncident":
        """Rebuild from :meth:`state_dict`."""
        values = dict(state)
        first, last = values["onset_interval"]
        values["onset_interval"] = (first, last)
        values["recent"] = deque((step, value, grad) for step, value, grad in values["recent"])
        values["window"] = deque(values["window"])
        values["nonfinite"] = {name: (step, v) for name, (step, v) in values["nonfinite"].items()}
        return cls(**values)

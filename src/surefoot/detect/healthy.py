"""The watch while all is well: is this record, or the mean of the last ones, out of its course?

One object holds what is known of a healthy run: the courses of the loss and of the gradient norm,
the test of the mean, a short memory for the onset, marks of where the loss ran long ago, and the
window after an announced change in which the loss takes up a new level.
"""

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

from surefoot.detect.baseline import Course
from surefoot.detect.bursts import Bursts
from surefoot.detect.history import Entry, History, Onset
from surefoot.detect.incident import OpenIncident
from surefoot.detect.planned import JUMP_RECORDS, Kind, Marks, Window
from surefoot.detect.shift import DELAY, ShiftTest
from surefoot.detect.trend import TrendTest
from surefoot.detect.usability import Reading
from surefoot.records import Status

WARM_UP = 16
LOSS_FLOOR = 0.002
RESOLUTION_SHARE, ENOUGH_DIFFERENCES = 0.6, 24
SMALLEST_SPIKE = 0.03
SMALLEST_SHIFT = 0.015
EARLY, FRESH = 6.0, 100.0
ABSURD_NATS, ABSURD_NOISE = 0.7, 10.0  # told, whatever the tail of the noise
LARGEST_FALL = 20.0
TOGETHER = 0.8
GRAD_RATIO = math.log(6.0)
GRAD_FROM = 32
LEARNED_NATS = 2.0
LEAST_UNIFORM = 1.0  # ln V of fewer than three tokens is no language model's
ENOUGH = 8  # losses that a new level is read from


class Alarm(NamedTuple):
    """What was noticed at a record: the code to open with, the onset, and the level before it."""

    code: str
    onset: Onset
    level: float | None = None


class Healthy:
    """What is known of a run while no incident is open.

    Args:
        uniform: loss of a uniform guess, ln V; None to take the first loss of a fresh run for it.
        strictness: factor on the thresholds.
    """

    def __init__(self, *, uniform: float | None, strictness: float) -> None:
        self.given = uniform is not None
        self.uniform = uniform
        self.strictness = strictness
        self.loss, self.grad = _courses(strictness)
        self.printed: float | None = None
        self.resolution = 1.0
        self.differences = 0
        self.shift = ShiftTest()
        self.trend = TrendTest()
        self.bursts = Bursts(strictness)
        self.history = History()
        self.marks = Marks()
        self.window: Window | None = None
        self.grad_out = 0

    def judge(self, step: int, reading: Reading) -> tuple[Status, dict[str, float], Alarm | None]:
        """The next record: its status, the scores behind it, and an alarm if it is out."""
        if self.window is not None:
            return self._settle(self.window, step, reading)
        return self._watch(step, reading)

    def guess(self) -> float | None:
        """Loss of a uniform guess. A first loss that was hardly improved on is no such thing."""
        if not self.given and self.uniform is not None:
            return self.uniform if self.loss.low < self.uniform - LEARNED_NATS else None
        return self.uniform

    def _watch(self, step: int, reading: Reading) -> tuple[Status, dict[str, float], Alarm | None]:
        scores: dict[str, float] = {}
        loss_score = grad_score = None
        loss_excess = grad_excess = 0.0
        loss, log_grad = reading.loss, reading.log_grad
        if loss is not None:
            loss_excess, loss_score = self.loss.judge(loss)
            scores["excess_nats"], scores["score"] = loss_excess, loss_score
        if log_grad is not None:
            grad_excess, grad_score = self.grad.judge(log_grad)
            scores["grad_score"] = grad_score
        if loss_score is None and grad_score is None and reading.nonfinite is None:
            return "unusable", scores, None
        self.history.append(Entry(step, loss, loss_score, grad_score, reading.evaluated))
        if reading.nonfinite is not None:
            onset = self.history.nonfinite_onset(reading.nonfinite)
            return "incident", scores, Alarm("SPK004", onset)
        if self._sudden(loss_excess, loss_score, grad_excess, grad_score):
            return "incident", scores, Alarm("SPK000", self.history.sudden_onset())
        self._learn_grad(log_grad, grad_excess, grad_score)
        if loss is None:
            return "unusable", scores, None
        course = self.loss
        self._note_digits(loss)
        noise = course.noise()
        burst, records = self.bursts.update(loss, course.expected(), noise)
        scores["burst_score"] = burst
        if burst >= 1.0 and not self.shift.rises:  # a rate that is raised may raise the loss
            level = self.bursts.level(records)
            if loss - level >= SMALLEST_SPIKE:
                onset = self.history.burst_onset(records, level, noise)
                return "incident", scores, Alarm("SPK000", onset, level)
        delayed = self.history.delayed(DELAY)
        excess, score = self.shift.update(course.clip(loss), delayed, noise, reading.rate)
        above, trend_score = self.trend.update(
            step, course.clip(loss), max(course.jitter, course.floor)
        )
        if trend_score > score:
            excess, score = above, trend_score
        scores["shift_score"] = score = score / self.strictness
        if score >= 1.0 and excess >= SMALLEST_SHIFT:
            onset = self.history.creeping_onset(noise)
            before = self.history.level_before(onset.index)
            level = self.shift.anchor if before is None else min(self.shift.anchor, before)
            if score == trend_score / self.strictness:
                level = min(level, self.trend.level)
            return "incident", scores, Alarm("SPK000", onset, level)
        if course.count == 0 and self.uniform is None and step <= 2 and loss > LEAST_UNIFORM:
            self.uniform = loss  # a fresh model guesses uniformly
        course.learn(loss)
        self.marks.add(step, course.level, self.grad.level)
        return ("warming_up" if course.count < WARM_UP else "healthy"), scores, None

    def _note_digits(self, loss: float) -> None:
        """Learn to how many digits the loss is printed: noise below that cannot be seen."""
        last, self.printed = self.printed, loss
        if last is not None and loss != last:
            self.resolution = min(self.resolution, max(abs(loss - last), 1e-9))
            self.differences += 1
        if self.differences >= ENOUGH_DIFFERENCES:
            self.loss.floor = max(LOSS_FLOOR, RESOLUTION_SHARE * self.resolution)

    def _sudden(
        self,
        loss_excess: float,
        loss_score: float | None,
        grad_excess: float,
        grad_score: float | None,
    ) -> bool:
        """Whether this record is an outlier: of the loss, of both signals, or of the gradient."""
        out = grad_score is not None and grad_score >= 1.0 and grad_excess >= GRAD_RATIO
        out = out and self.grad.count >= GRAD_FROM
        self.grad_out = ((self.grad_out << 1) | int(out)) & 0b111
        if (
            loss_excess >= ABSURD_NATS
            and loss_excess >= ABSURD_NOISE * self.loss.noise() * self.loss.doubt()
            and loss_excess >= self._smallest_spike()
        ):
            return True
        if (
            loss_score is not None
            and loss_score >= TOGETHER
            and loss_excess >= self._smallest_spike()
            and (loss_score >= 1.0 or self.history.recent_grad() >= TOGETHER)
        ):
            return True
        return out and self.grad_out.bit_count() >= 2

    def _smallest_spike(self) -> float:
        """Least excess of a spike, nats: large while the first fall is fresh in memory."""
        course = self.loss
        fall = min(course.top - course.low, LARGEST_FALL)  # one absurd value is no first fall
        if course.count < WARM_UP:
            fall = max(fall, 1.0)
        fresh = min(1.0, FRESH / (course.count + 1))
        return max(SMALLEST_SPIKE, EARLY * fall * fresh / (course.count + 1))

    def _learn_grad(self, log_grad: float | None, excess: float, score: float | None) -> None:
        if log_grad is None or score is None:
            return
        if score >= 1.0 and excess >= GRAD_RATIO:
            self.grad.note_outlier()
        else:
            self.grad.learn(log_grad)

    # ---- what the run announces -----------------------------------------------------------------

    def announced(self, kind: Kind, factor: float, *, during_incident: bool) -> None:
        """The run says that it changed its batch or its data."""
        if factor > 1.0:  # a noise that shrinks is learned in time; one that grows would alarm
            self.loss.rescale(factor)
            self.grad.rescale(factor)
            self.shift.spread *= factor
        if kind == "data" and self.loss.count and not during_incident and self.window is None:
            self.window = Window(self.loss.expected(), self.loss.noise())

    def _settle(
        self, window: Window, step: int, reading: Reading
    ) -> tuple[Status, dict[str, float], Alarm | None]:
        """A record after a change of the data: only what cannot be planned is told."""
        loss = reading.loss
        scores = {} if loss is None else {"excess_nats": loss - window.level}
        if reading.nonfinite is not None:
            self._take_up(window)
            self.history.append(Entry(step, loss, None, None))
            alarm = Alarm("SPK004", self.history.nonfinite_onset(reading.nonfinite), window.ran())
            return "incident", scores, alarm
        if loss is not None and window.absurd(loss, self.guess()):
            level = min(window.level, window.ran()) if window.seen < JUMP_RECORDS else window.ran()
            self._take_up(window)
            self.history.append(Entry(step, loss, 1.0, None))
            return "incident", scores, Alarm("SPK000", self.history.sudden_onset(), level)
        window.add(loss, reading.log_grad)
        if loss is not None:
            self.history.append(Entry(step, loss, 0.0, None, reading.evaluated))
        if window.over():
            rises = window.rises()
            self._take_up(window)
            if rises:
                onset = self.history.creeping_onset(self.loss.noise())
                return "incident", scores, Alarm("SPK000", onset, window.level)
        return ("unusable" if loss is None else "healthy"), scores, None

    def _take_up(self, window: Window) -> None:
        """The window is over: where the loss ran in it is the course from now on."""
        self.trend.restart()
        self.bursts.leave()
        self.window, self.grad_out = None, 0
        if window.grads:
            self.grad.relevel(fmean(window.grads))
        if len(window.losses) >= ENOUGH:
            self.loss.relevel(*window.found())
        self.shift = ShiftTest(rate=self.shift.rate)

    def go_back(self, step: int) -> None:
        """What was known at an earlier step is the course again."""
        self.history.forget_from(step)
        self.window = None
        levels = self.marks.back_to(step)
        if levels is None:
            self._begin_anew()
            return
        loss, log_grad = levels
        if abs(loss - self.loss.level) > self.loss.noise():
            self.shift = ShiftTest(rate=self.shift.rate)
        else:
            self.shift.back(loss)
        self.trend.restart()
        self.bursts.leave()
        self.loss.relevel(loss)
        self.grad.relevel(log_grad)

    def _begin_anew(self) -> None:
        """The run went back to before anything that is known of it: to its first steps, mostly."""
        self.loss, self.grad = _courses(self.strictness)
        self.shift, self.trend = ShiftTest(), TrendTest()
        self.bursts = Bursts(self.strictness)
        self.history.restart([])
        self.grad_out = 0

    # ---- an incident begins and ends ------------------------------------------------------------

    def leave(self) -> None:
        """An incident opens: what was learned just before it may be part of it."""
        self.window = None
        self.trend.restart()
        self.bursts.leave()
        self.loss.drop_pending()
        self.grad.drop_pending()

    def resume(self, incident: OpenIncident, noise: float | None = None) -> None:
        """An incident has ended; its newest records are the course from now on.

        Args:
            incident: the incident.
            noise: of a new level; None if the loss came back to the old one.
        """
        self.grad_out = 0
        recent = list(incident.recent)
        values = [value for _, value, _ in recent]
        grads = [grad for _, _, grad in recent if grad is not None]
        if len(grads) >= 4:
            self.grad.relevel(fmean(grads))
        if incident.signal != "loss" or not values:
            self.history.restart([])
            return
        self.history.restart([Entry(step, value, 0.0, None) for step, value, _ in recent])
        if incident.level is None:
            for value in values:
                self.loss.learn(value)
            return
        self.loss.relevel(fmean(values), noise)
        if noise is None and not incident.moved:
            self.shift.back(fmean(values))
        else:
            self.shift = ShiftTest(rate=self.shift.rate)

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "given": self.given,
            "uniform": self.uniform,
            "strictness": self.strictness,
            "grad_out": self.grad_out,
            "loss": self.loss.state_dict(),
            "grad": self.grad.state_dict(),
            "trend": self.trend.state_dict(),
            "bursts": self.bursts.state_dict(),
            "printed": self.printed,
            "resolution": self.resolution,
            "differences": self.differences,
            "shift": self.shift.state_dict(),
            "history": self.history.state_dict(),
            "marks": self.marks.state_dict(),
            "window": None if self.window is None else self.window.state_dict(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Healthy":
        """Rebuild from :meth:`state_dict`."""
        healthy = cls(uniform=state["uniform"], strictness=state["strictness"])
        healthy.given, healthy.grad_out = state["given"], state["grad_out"]
        healthy.loss.load_state_dict(state["loss"])
        healthy.grad.load_state_dict(state["grad"])
        healthy.shift = ShiftTest.from_state(state["shift"])
        healthy.trend = TrendTest.from_state(state["trend"])
        healthy.printed, healthy.resolution = state["printed"], state["resolution"]
        healthy.differences = state["differences"]
        if healthy.differences >= ENOUGH_DIFFERENCES:
            healthy.loss.floor = max(LOSS_FLOOR, RESOLUTION_SHARE * healthy.resolution)
        healthy.bursts = Bursts.from_state(state["bursts"])
        healthy.history.load_state_dict(state["history"])
        healthy.marks = Marks.from_state(state["marks"])
        window = state["window"]
        healthy.window = None if window is None else Window.from_state(window)
        return healthy


def _courses(strictness: float) -> tuple[Course, Course]:
    """Of the loss and of the logarithm of the gradient norm, before anything is known."""
    loss = Course(floor=LOSS_FLOOR, prior=0.15, strictness=strictness)
    return loss, Course(floor=0.02, prior=0.3, strictness=strictness)

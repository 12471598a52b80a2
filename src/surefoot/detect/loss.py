"""The detector of loss spikes, shifts, divergence and non-finite values."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from surefoot.detect.baseline import SETTLED, Course
from surefoot.detect.history import Entry, History, Onset
from surefoot.detect.incident import STREAK, OpenIncident
from surefoot.detect.messages import incident_finding, usability_finding
from surefoot.detect.shift import DELAY, ShiftTest
from surefoot.detect.usability import Reading, Usability
from surefoot.records import Finding, Incident, Status, StepRecord, Verdict

WARM_UP = 16
SMALLEST_SPIKE = 0.03
SMALLEST_SHIFT = 0.015
EARLY = 6.0
LARGEST_FALL = 20.0
TOGETHER = 0.8
GRAD_RATIO = math.log(4.0)
GRAD_FROM = 32
LEARNED_NATS = 2.0
FORMAT = 1


class LossDetector:
    """Watches the loss and the global gradient norm, one record at a time.

    ::

        detector = LossDetector(vocab_size=50304)
        for record in records:
            verdict = detector.update(record)
            if verdict.halt: ...

    Of a record it uses ``loss`` (nats), ``grad_norm``, ``learning_rate``, ``loss_scale`` and
    ``update_skipped``, each where present; records may be irregular and sparse, and every span is
    counted in records. It is deterministic, O(1) in time and memory a record.

    Args:
        vocab_size: number of tokens V. A loss within 1 nat of ln V after the horizon is divergence.
            Default: the loss of the first record stands in for ln V where the run is seen from the
            start and fell by 2 nats since.
        horizon: records after the alarm at which an incident that has not come back is judged.
    """

    name = "loss"

    def __init__(self, *, vocab_size: int | None = None, horizon: int = 200) -> None:
        if vocab_size is not None and vocab_size < 2:
            raise ValueError(f"expected vocab_size of 2 or more, got {vocab_size}")
        if horizon < 2 * STREAK:
            raise ValueError(f"expected a horizon of at least {2 * STREAK} records, got {horizon}")
        self.vocab_size = vocab_size
        self.horizon = horizon
        self._uniform = None if vocab_size is None else math.log(vocab_size)
        self._loss = Course(floor=0.002, prior=0.15)
        self._grad = Course(floor=0.02, prior=0.3)
        self._shift = ShiftTest()
        self._history = History()
        self._usability = Usability()
        self._open: OpenIncident | None = None
        self._grad_out = 0
        self._step: int | None = None
        self._attempt = 0

    @property
    def incident(self) -> Incident | None:
        """The incident that is open now."""
        if self._open is None:
            return None
        return self._open.record()

    def update(self, record: StepRecord) -> Verdict:
        """Judge the next record.

        Raises:
            ValueError: if ``step`` does not increase within an attempt.
        """
        self._arrive(record)
        level = self._loss.level if self._loss.count else None
        reading = self._usability.read(record.step, record.values, level)
        findings = self._news()
        if self._open is None:
            status, scores = self._watch(record.step, reading, findings)
        else:
            status, scores = self._follow(self._open, record.step, reading, findings)
        halt = any(finding.code in ("SPK003", "SPK004") for finding in findings)
        return Verdict(
            step=record.step, status=status, scores=scores, findings=tuple(findings), halt=halt
        )

    def finish(self) -> tuple[Finding, ...]:
        """Findings on what is still open; changes nothing, so it may be called at any time."""
        found = [
            usability_finding(code, evidence, attempt=self._attempt)
            for code, evidence in self._usability.news(at_end=True)
        ]
        if self._open is not None:
            found.append(self._unfinished(self._open))
        return tuple(found)

    def _unfinished(self, incident: OpenIncident) -> Finding:
        code, recovered = incident.code, None
        if code == "SPK000":
            dead = incident.knows_nothing(self._guess())
            recovered = None if dead else incident.recovered_step(at_end=True)
            code = "SPK001" if recovered else incident.outcome(self._guess(), at_end=True) or code
            if code == "SPK001" and recovered is None:
                incident = replace(incident)  # nothing is changed by asking
                recovered = incident.judge_by_level()
        return incident_finding(
            incident, code, attempt=self._attempt, recovered=recovered, at_end=True
        )

    def _news(self) -> list[Finding]:
        found = []
        for code, evidence in self._usability.news():
            self._usability.mark_told(code)
            found.append(usability_finding(code, evidence, attempt=self._attempt))
        return found

    def _arrive(self, record: StepRecord) -> None:
        """Check the order; a later attempt may go back, to a checkpoint's step."""
        if self._step is not None and record.step <= self._step:
            if record.attempt <= self._attempt:
                raise ValueError(
                    f"records must come in increasing step: got step {record.step} "
                    f"after {self._step} in attempt {record.attempt}"
                )
            self._history.forget_from(record.step)
            self._open = None
        self._step, self._attempt = record.step, record.attempt

    # ---- no incident open -----------------------------------------------------------------------

    def _watch(
        self, step: int, reading: Reading, findings: list[Finding]
    ) -> tuple[Status, dict[str, float]]:
        scores: dict[str, float] = {}
        loss_score = grad_score = None
        loss_excess = grad_excess = 0.0
        if reading.loss is not None:
            loss_excess, loss_score = self._loss.judge(reading.loss)
            scores["excess_nats"], scores["score"] = loss_excess, loss_score
        if reading.log_grad is not None:
            grad_excess, grad_score = self._grad.judge(reading.log_grad)
            scores["grad_score"] = grad_score
        if loss_score is None and grad_score is None and reading.nonfinite is None:
            return "unusable", scores
        self._history.append(Entry(step, reading.loss, loss_score, grad_score))
        if reading.nonfinite is not None:
            self._start(step, reading, "SPK004", self._history.sudden_onset(), findings)
            return "incident", scores
        if self._sudden(loss_excess, loss_score, grad_excess, grad_score):
            self._start(step, reading, "SPK000", self._history.sudden_onset(), findings)
            return "incident", scores
        self._learn_grad(reading.log_grad, grad_excess, grad_score)
        if reading.loss is None:
            return "unusable", scores
        noise = self._loss.noise()
        delayed = self._history.delayed(DELAY)
        clipped = self._loss.clip(reading.loss)
        shift_excess, shift_score = self._shift.update(clipped, delayed, noise, reading.rate)
        scores["shift_score"] = shift_score
        if shift_score >= 1.0 and shift_excess >= SMALLEST_SHIFT:
            onset = self._history.creeping_onset(noise)
            level = min(self._shift.anchor, self._history.level_before(onset.index) or math.inf)
            self._start(step, reading, "SPK000", onset, findings, level)
            return "incident", scores
        if self._loss.count == 0 and self._uniform is None and step <= 2:
            self._uniform = reading.loss  # a fresh model guesses uniformly
        self._loss.learn(reading.loss)
        return ("warming_up" if self._loss.count < WARM_UP else "healthy"), scores

    def _sudden(
        self,
        loss_excess: float,
        loss_score: float | None,
        grad_excess: float,
        grad_score: float | None,
    ) -> bool:
        """Whether this record is an outlier: of the loss, of both signals, or of the gradient."""
        out = grad_score is not None and grad_score >= 1.0 and grad_excess >= GRAD_RATIO
        out = out and self._grad.count >= GRAD_FROM
        self._grad_out = ((self._grad_out << 1) | int(out)) & 0b111
        if loss_score is not None:
            if loss_excess >= self._smallest_spike():
                if loss_score >= 1.0:
                    return True
                if loss_score >= TOGETHER and self._history.recent_grad() >= TOGETHER:
                    return True
        return out and self._grad_out.bit_count() >= 2

    def _guess(self) -> float | None:
        """Loss of a uniform guess. A first loss that was hardly improved on is no such thing."""
        if self.vocab_size is None and self._uniform is not None:
            return self._uniform if self._loss.low < self._uniform - LEARNED_NATS else None
        return self._uniform

    def _smallest_spike(self) -> float:
        """Least excess of a spike, nats: large while the first fall is fresh in memory."""
        course = self._loss
        fall = min(course.top - course.low, LARGEST_FALL)  # one absurd value is no first fall
        if course.count < WARM_UP:
            fall = max(fall, 1.0)
        return max(SMALLEST_SPIKE, EARLY * fall / (course.count + 1))

    def _learn_grad(self, log_grad: float | None, excess: float, score: float | None) -> None:
        if log_grad is None or score is None:
            return
        if score >= 1.0 and excess >= GRAD_RATIO:
            self._grad.note_outlier()
        else:
            self._grad.learn(log_grad)

    def _start(
        self,
        step: int,
        reading: Reading,
        code: str,
        onset: Onset,
        findings: list[Finding],
        level: float | None = None,
    ) -> None:
        """Open an incident, back-dated to its onset, and tell it."""
        losses = self._history.losses_from(onset.index)
        # Judged by the loss wherever there is one: what is never logged cannot come back.
        seen = self._loss.count or reading.loss is not None or reading.nonfinite == "loss"
        signal = "loss" if seen else "grad_norm"
        course = self._loss if signal == "loss" else self._grad
        noise = course.noise() * course.doubt()
        if level is None and signal == "loss" and len(losses) > 2:
            level = self._history.level_before(onset.index)
        if level is None and course.count:
            level = course.expected()
        spread = self._shift.spread_sigma(noise) if signal == "loss" else 0.0
        leading = onset.signal
        if reading.nonfinite is not None and onset.step == step:
            leading = reading.nonfinite
        incident = OpenIncident(
            id=f"a{self._attempt}-s{step:05d}",
            alarm_step=step,
            onset_step=onset.step,
            onset_interval=onset.interval,
            leading_signal=leading,
            code=code,
            signal=signal,
            level=level,
            noise=noise,
            tolerance=max(2.5 * max(0.36 * noise, 1.3 * spread), 0.005),
            last_step=onset.interval[0],
            peak_step=step,
            horizon=self.horizon,
            slope=self._slope() if signal == "loss" else 0.0,
            age=max(1, course.count),
        )
        if signal == "grad_norm" and reading.log_grad is not None:
            incident.add(step, reading.log_grad, reading.log_grad)
        else:
            for past_step, past_loss in losses:
                incident.add(past_step, past_loss, None)
        if reading.nonfinite is not None:
            incident.not_finite(step, reading.nonfinite, reading.value)
        self._loss.drop_pending()
        self._grad.drop_pending()
        self._open = incident
        findings.append(incident_finding(incident, code, attempt=self._attempt))

    def _slope(self) -> float:
        """Nats a record at which the loss is expected to fall on, at most 0."""
        # Early on the long means still hold the steep first fall, which is fading: carried on, it
        # would leave the loss above its course for ever.
        return self._shift.slope() if self._loss.count >= SETTLED else 0.0

    # ---- an incident is open --------------------------------------------------------------------

    def _follow(
        self, incident: OpenIncident, step: int, reading: Reading, findings: list[Finding]
    ) -> tuple[Status, dict[str, float]]:
        if reading.nonfinite is not None:
            incident.not_finite(step, reading.nonfinite, reading.value)
            if incident.code != "SPK004":
                self._tell(incident, "SPK004", findings)
            return "incident", {}
        value = reading.loss if incident.signal == "loss" else reading.log_grad
        if value is None:
            return "incident", {}
        incident.add(step, value, reading.log_grad)
        scores: dict[str, float] = {}
        if incident.level is not None:
            scores["excess_nats"] = value - incident.course()
        guess, noise = self._guess(), None
        back = None if incident.knows_nothing(guess) else incident.recovered_step()
        outcome = None if back is not None else incident.outcome(guess)
        if outcome == "SPK001":
            back, noise = incident.judge_by_level(), incident.new_level()[1]
        if back is not None:
            scores["recovered_step"] = float(back)
            if incident.code != "SPK004":
                self._tell(incident, "SPK001", findings, recovered=back)
            self._resume(incident, noise)
            if noise is None and back - incident.onset_step <= 2:
                self._loss.note_outlier()
            return "healthy", scores
        if outcome is None:
            return "incident", scores
        if incident.code != "SPK003":
            self._tell(incident, outcome, findings)
        incident.records = 0
        if outcome == "SPK002":
            self._resume(incident, noise=incident.new_level()[1])
        return "incident", scores

    def _tell(
        self,
        incident: OpenIncident,
        code: str,
        findings: list[Finding],
        recovered: int | None = None,
    ) -> None:
        incident.code = code
        findings.append(
            incident_finding(incident, code, attempt=self._attempt, recovered=recovered)
        )

    def _resume(self, incident: OpenIncident, noise: float | None = None) -> None:
        """Close the incident; its newest records are the course from now on.

        Args:
            incident: the incident that ends.
            noise: of a new level; None if the loss came back to the old one.
        """
        self._open, self._grad_out = None, 0
        recent = list(incident.recent)
        values = [value for _, value, _ in recent]
        grads = [grad for _, _, grad in recent if grad is not None]
        if len(grads) >= 4:
            self._grad.relevel(fmean(grads))
        if incident.signal != "loss":
            self._history.restart([])
            return
        self._history.restart([Entry(step, value, 0.0, None) for step, value, _ in recent])
        if incident.level is None:
            for value in values:
                self._loss.learn(value)
            return
        self._loss.relevel(fmean(values), noise)
        if noise is None:
            self._shift.back(fmean(values))
        else:
            self._shift = ShiftTest(rate=self._shift.rate)

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "vocab_size": self.vocab_size,
            "horizon": self.horizon,
            "uniform": self._uniform,
            "step": self._step,
            "attempt": self._attempt,
            "grad_out": self._grad_out,
            "loss": self._loss.state_dict(),
            "grad": self._grad.state_dict(),
            "shift": self._shift.state_dict(),
            "usability": self._usability.state_dict(),
            "history": self._history.state_dict(),
            "open": None if self._open is None else self._open.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`, settings included.

        Raises:
            ValueError: if it was written in another format.
        """
        if state.get("format") != FORMAT:
            raise ValueError(
                f"expected detector state of format {FORMAT}, got {state.get('format')!r}"
            )
        self.vocab_size, self.horizon = state["vocab_size"], state["horizon"]
        self._uniform, self._step = state["uniform"], state["step"]
        self._attempt, self._grad_out = state["attempt"], state["grad_out"]
        self._loss.load_state_dict(state["loss"])
        self._grad.load_state_dict(state["grad"])
        self._shift = ShiftTest.from_state(state["shift"])
        self._usability = Usability(**state["usability"])
        self._history.load_state_dict(state["history"])
        opened = state["open"]
        self._open = None if opened is None else OpenIncident.from_state(opened)

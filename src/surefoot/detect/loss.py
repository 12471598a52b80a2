"""The detector of loss spikes, shifts, divergence and non-finite values."""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.healthy import Alarm, Healthy
from surefoot.detect.history import Onset
from surefoot.detect.incident import STREAK, OpenIncident
from surefoot.detect.messages import incident_finding, usability_finding
from surefoot.detect.opening import open_incident
from surefoot.detect.planned import Planned
from surefoot.detect.strictness import DEFAULT_RATE, strictness
from surefoot.detect.usability import Reading, Usability
from surefoot.records import Finding, Incident, Status, StepRecord, Verdict

FORMAT = 2


class LossDetector:
    """Watches the loss and the global gradient norm, one record at a time.

    ::

        detector = LossDetector(vocab_size=50304)
        for record in records:
            verdict = detector.update(record)
            if verdict.halt: ...

    Of a record it uses ``loss`` (nats), ``grad_norm``, ``learning_rate``, ``loss_scale``,
    ``update_skipped`` and ``validation_loss``, and what a run announces: ``batch_size``,
    ``tokens``, ``data_phase``; each where present. Records may be irregular and sparse, and every
    span is counted in records. It is deterministic, O(1) in time and memory a record.

    Args:
        vocab_size: number of tokens V. A loss within 1 nat of ln V after the horizon is divergence.
            Default: the loss of the first record stands in for ln V where the run is seen from the
            start and fell by 2 nats since.
        horizon: records after the alarm at which an incident that has not come back is judged.
        false_alarms_per_10k: false incidents that may come on 10 000 healthy records, on the mix of
            curves that ``benchmarks/detector_false_alarms.py`` measures; the thresholds follow it.
    """

    name = "loss"

    def __init__(
        self,
        *,
        vocab_size: int | None = None,
        horizon: int = 200,
        false_alarms_per_10k: float = DEFAULT_RATE,
    ) -> None:
        if vocab_size is not None and vocab_size < 2:
            raise ValueError(f"expected vocab_size of 2 or more, got {vocab_size}")
        if horizon < 2 * STREAK:
            raise ValueError(f"expected a horizon of at least {2 * STREAK} records, got {horizon}")
        self.vocab_size = vocab_size
        self.horizon = horizon
        self.false_alarms_per_10k = false_alarms_per_10k
        self._healthy = Healthy(
            uniform=None if vocab_size is None else math.log(vocab_size),
            strictness=strictness(false_alarms_per_10k),
        )
        self._usability = Usability()
        self._planned = Planned()
        self._open: OpenIncident | None = None
        self._step: int | None = None
        self._attempt = 0

    @property
    def incident(self) -> Incident | None:
        """The incident that is open now."""
        return None if self._open is None else self._open.record()

    def update(self, record: StepRecord) -> Verdict:
        """Judge the next record.

        Raises:
            ValueError: if ``step`` does not increase within an attempt.
        """
        self._arrive(record)
        step, values, course = record.step, record.values, self._healthy.loss
        reading = self._usability.read(step, values, course.level if course.count else None)
        change = self._planned.read(values)
        if change is not None:
            self._healthy.announced(*change, during_incident=self._open is not None)
            if self._open is not None:
                self._open.announced(*change)
        findings = self._news()
        alarm = None
        if self._open is not None:
            status, scores = self._follow(self._open, step, reading, findings)
        else:
            status, scores, alarm = self._healthy.judge(step, reading)
        if alarm is not None:
            findings.append(self._start(step, reading, alarm))
        if not findings:
            return Verdict(step=step, status=status, scores=scores)
        halt = any(finding.code in ("SPK003", "SPK004") for finding in findings)
        return Verdict(step=step, status=status, scores=scores, findings=tuple(findings), halt=halt)

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
        if not incident.knows_nothing(self._healthy.guess()):
            recovered = incident.recovered_step(at_end=True)
        if code == "SPK000":
            code = (
                "SPK001"
                if recovered
                else incident.outcome(self._healthy.guess(), at_end=True) or code
            )
            if code == "SPK001" and recovered is None:
                recovered = incident.level_back_step
        elif code != "SPK004":
            recovered = None
        return self._finding(incident, code, recovered, at_end=True)

    def _finding(
        self,
        incident: OpenIncident,
        code: str,
        recovered: int | None = None,
        *,
        at_end: bool = False,
    ) -> Finding:
        return incident_finding(
            incident,
            code,
            attempt=self._attempt,
            recovered=recovered,
            at_end=at_end,
            false_alarm_rate=self.false_alarms_per_10k,
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
            self._healthy.go_back(record.step)
            self._open = None
        self._step, self._attempt = record.step, record.attempt

    def _start(self, step: int, reading: Reading, alarm: Alarm) -> Finding:
        """Open an incident, back-dated to its onset, and tell it."""
        self._open = open_incident(
            step, reading, alarm, self._healthy, attempt=self._attempt, horizon=self.horizon
        )
        self._healthy.leave()
        return self._finding(self._open, alarm.code)

    # ---- what other signals know of it ----------------------------------------------------------

    def set_onset(
        self, step: int, interval: tuple[int, int], leading_signal: str
    ) -> Finding | None:
        """Date the open incident earlier: another signal left its course before the loss did.

        Args:
            step: best estimate of the first abnormal step.
            interval: first and last step that the onset may have had; holds ``step``.
            leading_signal: what left its course.

        Returns:
            The incident's finding with the new onset; None if none is open, or if ``step`` is not
            before the onset that is known.
        """
        incident = self._open
        if incident is None or step >= incident.onset_step:
            return None
        incident.onset_step, incident.onset_interval = step, interval
        incident.leading_signal = leading_signal
        return self._finding(incident, incident.code)

    def open_incident(
        self, onset_step: int, interval: tuple[int, int], leading_signal: str
    ) -> Finding | None:
        """Open an incident at the newest record for another signal that left its course.

        It ends as every other does, by the loss, or by time where none is logged; call
        :meth:`hold` at each record at which that signal is still off its course.

        Returns:
            SPK000; None if an incident is open already or no record came yet.
        """
        if self._open is not None or self._step is None:
            return None
        onset = Onset(len(self._healthy.history), onset_step, interval, leading_signal)
        nothing = Reading(None, None, None, None, 0.0)
        return self._start(self._step, nothing, Alarm("SPK000", onset))

    def hold(self) -> None:
        """A signal for which an incident was opened is still off its course."""
        if self._open is not None:
            self._open.hold()

    @property
    def level(self) -> float | None:
        """Where the loss runs, nats; before the onset, while an incident is open."""
        if self._open is not None and self._open.signal == "loss":
            return self._open.level
        return self._healthy.loss.expected() if self._healthy.loss.count else None

    @property
    def noise(self) -> float:
        """Standard deviation of a single loss about its course, nats."""
        return self._healthy.loss.noise()

    @property
    def uniform(self) -> float | None:
        """Loss of a uniform guess, ln V, if known."""
        return self._healthy.guess()

    # ---- an incident is open --------------------------------------------------------------------

    def _follow(
        self, incident: OpenIncident, step: int, reading: Reading, findings: list[Finding]
    ) -> tuple[Status, dict[str, float]]:
        if reading.nonfinite is not None:
            incident.not_finite(step, reading.nonfinite, reading.value, reading.skipped)
            if incident.code != "SPK004":
                self._tell(incident, "SPK004", findings)
            return "incident", {}
        value = reading.loss if incident.signal == "loss" else reading.log_grad
        if value is not None:
            incident.add(step, value, reading.log_grad)
        elif incident.signal != "loss" and incident.leading_signal not in ("loss", "grad_norm"):
            incident.pass_by(step)
        else:
            return "incident", {}
        scores: dict[str, float] = {}
        if incident.level is not None and value is not None:
            scores["excess_nats"] = value - incident.course()
        guess, noise = self._healthy.guess(), None
        back = None if incident.knows_nothing(guess) else incident.recovered_step()
        outcome = None if back is not None else incident.outcome(guess)
        if outcome == "SPK001":
            back, noise = incident.level_back_step, incident.new_level()[1]
        if back is not None:
            scores["recovered_step"] = float(back)
            if incident.code != "SPK004":
                self._tell(incident, "SPK001", findings, recovered=back)
            self._resume(incident, noise)
            if noise is None and incident.single():
                self._healthy.loss.note_outlier()
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
        findings.append(self._finding(incident, code, recovered))

    def _resume(self, incident: OpenIncident, noise: float | None = None) -> None:
        self._open = None
        self._healthy.resume(incident, noise)

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "vocab_size": self.vocab_size,
            "horizon": self.horizon,
            "false_alarms_per_10k": self.false_alarms_per_10k,
            "step": self._step,
            "attempt": self._attempt,
            "healthy": self._healthy.state_dict(),
            "usability": self._usability.state_dict(),
            "planned": self._planned.state_dict(),
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
        self.false_alarms_per_10k = state["false_alarms_per_10k"]
        self._step, self._attempt = state["step"], state["attempt"]
        self._healthy = Healthy.from_state(state["healthy"])
        self._usability = Usability(**state["usability"])
        self._planned = Planned(**state["planned"])
        opened = state["open"]
        self._open = None if opened is None else OpenIncident.from_state(opened)

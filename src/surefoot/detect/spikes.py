"""The detector that runs, watches and logs are judged by: the loss and every other signal.

It joins the parts: :class:`~surefoot.detect.loss.LossDetector` judges the loss,
:class:`~surefoot.detect.bank.SignalBank` follows everything else, precursors warn early, monitors
look for contradictions, and what is told of an incident gets its onset from whichever signal moved
first and a ranking of causes from all of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from surefoot.detect.bank import SignalBank
from surefoot.detect.context import Context
from surefoot.detect.early import EarlySign, EarlyWarning
from surefoot.detect.gather import after, explained
from surefoot.detect.loss import LossDetector
from surefoot.detect.monitors import Monitors
from surefoot.detect.precursors import DEFAULT
from surefoot.detect.scores import Scores
from surefoot.detect.signal_incident import SignalIncident, margin
from surefoot.detect.warned import warning
from surefoot.records import Event, Finding, Incident, StepRecord, TrainSpec, Verdict, split_name

FALSE_ALARMS_PER_10K = 0.5
"""False incidents that may come on 10 000 healthy records, if nothing else is asked for."""
BANK_SHARE = 0.4
"""Share of them that is the other signals'; the rest is the loss detector's."""
LOOK_BACK = 64
"""Records before the alarm within which another signal's onset may be that of the incident."""
DRIFT = 200
"""Records after a signal's new level within which a further one is the same drift, not told."""
MOST_SETTLED = 16
MOST_DOUBTED = 64
FORMAT = 2


class SpikeDetector:
    """Watches the loss and every other signal of a run, one record at a time.

    ::

        detector = SpikeDetector(vocab_size=50304)
        for record in records:
            verdict = detector.update(record)
            for finding in verdict.findings:
                print(finding.code, finding.message)

    Records may be irregular and sparse, hold any of the catalogued signals and lack any; spans are
    counted in records. It is deterministic, O(1) in time and memory a record, and says the same
    online and offline. Signals that announce a planned change (``learning_rate``, ``batch_size``,
    ``tokens``, ``data_phase``, a new attempt) explain what it moves.

    Args:
        vocab_size: number of tokens V. A loss within 1 nat of ln V after the horizon is divergence.
        places: for each per-place signal the names of its values, in order.
        horizon: records after an alarm at which an incident that has not come back is judged.
        spec: what the run was asked to do, as far as known: its schedule is compared.
        false_alarms_per_10k: false incidents that may come on 10 000 healthy records, all signals,
            layers and codes together.
    """

    name = "spikes"

    def __init__(
        self,
        *,
        vocab_size: int | None = None,
        places: Mapping[str, tuple[str, ...]] | None = None,
        horizon: int = 200,
        spec: TrainSpec | None = None,
        false_alarms_per_10k: float = FALSE_ALARMS_PER_10K,
    ) -> None:
        self.false_alarms_per_10k = false_alarms_per_10k
        share = BANK_SHARE * false_alarms_per_10k
        self._loss = LossDetector(
            vocab_size=vocab_size,
            horizon=horizon,
            false_alarms_per_10k=false_alarms_per_10k - share,
        )
        self._bank = SignalBank(places, false_alarms_per_10k=share)
        self._early = _early()
        self._monitors = Monitors(spec=spec)
        self._context = Context()
        self._signal: SignalIncident | None = None
        self._known_as: tuple[str, str] | None = None
        self._warned: tuple[str, int, int, str] | None = None
        self._tainted: tuple[str, int] | None = None
        self._settled: dict[str, int] = {}
        self._doubted: list[str] = []

    @property
    def incident(self) -> Incident | None:
        """The incident of the loss that is open now."""
        return self._loss.incident

    def update(self, record: StepRecord) -> Verdict:
        """Judge the next record.

        Raises:
            ValueError: if ``step`` does not increase within an attempt.
        """
        before = self._loss.incident
        last = self._context.last_step
        verdict = self._loss.update(record)
        if self._context.records and record.step <= last:
            self._go_back(record.step)
        incident = self._loss.incident
        self._context.update(record)
        scores = self._bank.update(record, learn=incident is None)
        signs = self._early.update(record, scores, incident=incident is not None)
        findings = self._monitors.update(record)
        self._note_taint(findings)
        if incident is not None and before is None:
            findings += self._begun(incident, verdict.findings)
        elif verdict.findings:
            findings += [self._told(finding, before or incident) for finding in verdict.findings]
        if incident is None:
            if before is not None:
                self._context.closed(before.onset_step)
                self._known_as = None
            findings += self._other_signals(record, scores, signs)
        if not findings and scores.top < 1.0:
            return verdict
        told = {"signals": scores.top} if scores.top >= 1.0 else {}
        return replace(verdict, scores={**verdict.scores, **told}, findings=tuple(findings))

    def _go_back(self, step: int) -> None:
        """The run went back: what was told of this step and later ones has not happened now."""
        self._signal, self._known_as, self._doubted = None, None, []
        self._settled = {name: at for name, at in self._settled.items() if at < step}
        if self._warned is not None and self._warned[1] >= step:
            self._warned = None
        if self._tainted is not None and self._tainted[1] >= step:
            self._tainted = None
        self._early = _early()

    def tell(self, event: Event) -> None:
        """Take note of an event of the ledger, before the records that follow it."""
        self._monitors.tell(event)

    def finish(self) -> tuple[Finding, ...]:
        """Findings on what is still open; changes nothing, so it may be called at any time."""
        found = [self._told(finding, self._loss.incident) for finding in self._loss.finish()]
        if self._signal is not None:
            found.append(self._explained(self._signal_finding(self._signal, "SPK000")))
        return (*found, *self._monitors.finish())

    # ---- the loss left its course ---------------------------------------------------------------

    def _begun(self, incident: Incident, told: tuple[Finding, ...]) -> list[Finding]:
        """An incident of the loss was opened: date it by the signal that moved first."""
        dated = self._earlier(incident)
        warned = self._recent_warning(incident.alarm_step)
        if self._signal is not None:
            self._known_as = (incident.id, self._signal.id)
            self._signal = None
        elif warned is not None:
            self._known_as = (incident.id, warned[0])
        current = self._loss.incident or incident
        self._context.opened(current.onset_step)
        if dated is not None:
            told = tuple(dated if f.evidence.get("incident") == incident.id else f for f in told)
        return [self._told(finding, current) for finding in told]

    def _earlier(self, incident: Incident) -> Finding | None:
        every = self._bank.every
        since = round(max(incident.alarm_step - LOOK_BACK * every, self._context.first_step))
        found = self._bank.earliest(since=since, until=incident.alarm_step)
        if self._signal is not None and self._signal.onset_step >= since:
            own = (self._signal.onset_step, self._signal.signal)
            found = own if found is None else min(found, own)
        warned = self._recent_warning(incident.alarm_step)
        if warned is not None and warned[2] >= since:
            found = warned[2:] if found is None else min(found, warned[2:])
        if found is None:
            return None
        step, name = found
        return self._loss.set_onset(step, (max(1, step - round(every)), step), name)

    def _told(self, finding: Finding, incident: Incident | None) -> Finding:
        """A finding of the loss detector with what the other signals add."""
        name = finding.evidence.get("incident")
        if name is None or incident is None:
            return finding
        evidence = {
            **finding.evidence,
            "judged_by": "loss",
            "false_alarm_rate": self.false_alarms_per_10k,
        }
        if self._known_as is not None and name == self._known_as[0]:
            evidence["incident"] = self._known_as[1]
        return self._explained(replace(finding, evidence=evidence))

    def _explained(self, finding: Finding) -> Finding:
        return after(explained(finding, self._context, self._bank), self._tainted)

    def _note_taint(self, findings: list[Finding]) -> None:
        """Remember that a restart lost state: what follows may be its late consequence."""
        for finding in findings:
            step = finding.place.steps[0] if finding.place.steps else 0
            if "causes" in finding.evidence:
                self._context.contradicted(finding.code, step)
            if finding.code.startswith("CKP") and finding.severity == "error":
                self._tainted = (finding.code, step)

    # ---- the loss is on its course --------------------------------------------------------------

    def _other_signals(
        self, record: StepRecord, scores: Scores, signs: tuple[EarlySign, ...]
    ) -> list[Finding]:
        """Open, follow and close an incident of another signal; warn."""
        found = []
        if self._signal is None:
            self._signal = self._left(record, scores)
            if self._signal is not None and not signs and self._signal.told == "SPK000":
                found.append(self._signal_finding(self._signal, "SPK000"))
        else:
            end = self._signal.outcome(self._bank, record)
            if end is not None:
                found.append(self._signal_finding(self._signal, *end))
                self._context.closed(self._signal.onset_step)
                if end[0] == "SPK002":
                    self._settle(self._signal.signal, record.step)
                self._signal = None
        found += [self._warning(sign, record) for sign in signs]
        return [self._explained(finding) for finding in found]

    def _warning(self, sign: EarlySign, record: StepRecord) -> Finding:
        """SPK005; of a signal whose incident is open, under the id of that."""
        own = f"a{record.attempt}-s{record.step:05d}"
        known = own if self._signal is None else self._signal.id
        self._warned = (known, record.step, sign.since, sign.signal)
        return warning(
            sign,
            incident=known,
            attempt=record.attempt,
            every=self._bank.every,
            false_alarm_rate=self.false_alarms_per_10k,
        )

    def _recent_warning(self, step: int) -> tuple[str, int, int, str] | None:
        """``(id, step, onset, signal)`` of a warning told shortly before, for what came of it."""
        if self._warned is None or step - self._warned[1] > LOOK_BACK * self._bank.every:
            return None
        return self._warned

    def _left(self, record: StepRecord, scores: Scores) -> SignalIncident | None:
        """What left its course at this record, back-dated; None if nothing did."""
        step = record.step
        for name in scores.opened:
            if name not in self._doubted and not self._drifts(name, step):
                self._doubted.append(name)
        runs = self._convincing(step) if self._doubted else []
        if runs:
            onset, _, signal = min(runs)
            reason = "outlier"
        elif scores.zeros:
            onset, signal, reason = step, scores.zeros[0], "zero"
        elif scores.nonfinite:
            onset, signal, reason = step, scores.nonfinite[0], "nonfinite"
        else:
            return None
        every = round(self._bank.every)
        warned = self._recent_warning(step)
        if warned is not None and warned[2] < onset:
            onset = warned[2]
        return SignalIncident(
            id=f"a{record.attempt}-s{step:05d}" if warned is None else warned[0],
            told="SPK000" if warned is None else "SPK005",
            attempt=record.attempt,
            alarm_step=step,
            onset_step=onset,
            onset_interval=(max(1, onset - every), onset),
            signal=signal,
            reason=reason,
            last_step=step,
            loss_seen=self._loss.level is not None,
        )

    def _convincing(self, step: int) -> list[tuple[int, float, str]]:
        """``(start, -score, name)`` of signals far enough out to be told without the loss."""
        found, kept = [], []
        for name in self._doubted[:MOST_DOUBTED]:
            run = self._bank.run(name, since=step)
            if run is None or not run.is_open:
                continue
            if abs(run.score) >= margin(name):
                found.append((run.start, -abs(run.score), name))
            else:
                kept.append(name)
        self._doubted = [] if found else kept
        return found

    def _settle(self, name: str, step: int) -> None:
        """A signal was told to be at a new level; one that goes on drifting is no new trouble."""
        signal = split_name(name)[0]
        self._settled.pop(signal, None)
        self._settled[signal] = step
        if len(self._settled) > MOST_SETTLED:
            del self._settled[next(iter(self._settled))]

    def _drifts(self, name: str, step: int) -> bool:
        settled = self._settled.get(split_name(name)[0])
        return settled is not None and step - settled <= DRIFT * self._bank.every

    def _signal_finding(
        self, signal: SignalIncident, code: str, recovered: int | None = None
    ) -> Finding:
        return signal.finding(code, self._bank, self.false_alarms_per_10k, recovered)

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "false_alarms_per_10k": self.false_alarms_per_10k,
            "loss": self._loss.state_dict(),
            "bank": self._bank.state_dict(),
            "early": self._early.state_dict(),
            "monitors": self._monitors.state_dict(),
            "context": self._context.state_dict(),
            "signal": None if self._signal is None else self._signal.state_dict(),
            "warned": None if self._warned is None else list(self._warned),
            "tainted": None if self._tainted is None else list(self._tainted),
            "settled": dict(self._settled),
            "doubted": list(self._doubted),
            "known_as": None if self._known_as is None else list(self._known_as),
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
        self.false_alarms_per_10k = state["false_alarms_per_10k"]
        self._loss.load_state_dict(state["loss"])
        self._bank.load_state_dict(state["bank"])
        self._early.load_state_dict(state["early"])
        self._monitors.load_state_dict(state["monitors"])
        self._context = Context.from_state(state["context"])
        signal, known, warned = state["signal"], state["known_as"], state["warned"]
        self._signal = None if signal is None else SignalIncident.from_state(signal)
        self._known_as = None if known is None else (known[0], known[1])
        self._warned = None if warned is None else (warned[0], warned[1], warned[2], warned[3])
        tainted, self._settled = state["tainted"], dict(state["settled"])
        self._doubted = list(state["doubted"])
        self._tainted = None if tainted is None else (tainted[0], tainted[1])


def _early() -> EarlyWarning:
    # What is sudden is told as an incident of its signal.
    return EarlyWarning(tuple(name for name in DEFAULT if name != "sudden"))

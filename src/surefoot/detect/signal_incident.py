"""A trouble that shows in another signal while the loss is on its course.

It is told when the signal left its course, and again when that has ended: the signal came back, or
it stays at a new level. If the loss leaves its course meanwhile, the trouble becomes the loss's and
keeps its id and its onset.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from surefoot.codes import lookup
from surefoot.detect.advice import rewind
from surefoot.detect.bank import SignalBank
from surefoot.detect.evidence import SignalFacts
from surefoot.records import (
    Finding,
    Place,
    Severity,
    StepRecord,
    number_to_json,
    signal_of,
    split_name,
)

LASTED = 30.0
"""Records out of the band from which what follows is a new level and not a return."""
NAMED = 8


LOUD = 1.9
LOUD_SIGNALS = frozenset(
    ("grad_norm", "update_rms", "update_ratio", "adam_rms", "attention_logit_max", "grad_cosine")
)
"""Signals that answer single batches and keep them in their momentum for a while: in healthy runs
their runs out of the band reach 1.8 times the threshold (SpikeBench, set ``dev``), faults 2 to 27.
Weights, log-sum-exp and moments below eps have no such bursts."""


def margin(name: str) -> float:
    """Score from which a signal is told by itself; below that it only helps to date the loss's."""
    return LOUD if split_name(name)[0] in LOUD_SIGNALS else 1.0


@dataclass(slots=True)
class SignalIncident:
    """An open incident of a signal other than the loss.

    Attributes:
        id: attempt and alarm step, as that of an incident of the loss.
        attempt: of the newest record.
        alarm_step: step at which it was noticed.
        onset_step: first step out of the band.
        onset_interval: first and last step that the onset may have had.
        signal: what led, by its full name.
        reason: ``outlier``, ``zero`` or ``nonfinite``.
        last_step: the newest step.
        told: code under which it was last told.
        loss_seen: whether there is a loss that could have moved.
    """

    id: str
    attempt: int
    alarm_step: int
    onset_step: int
    onset_interval: tuple[int, int]
    signal: str
    reason: str
    last_step: int
    told: str = "SPK000"
    loss_seen: bool = True

    def value(self, record: StepRecord, bank: SignalBank) -> float | None:
        """The signal's value in a record; None if it has none."""
        name, place = split_name(self.signal)
        try:
            if place is None:
                return float(record.values[name])
            return float(record.places[name][bank.places[name].index(place)])
        except (KeyError, IndexError, ValueError, TypeError, OverflowError):
            return None

    def outcome(self, bank: SignalBank, record: StepRecord) -> tuple[str, int] | None:
        """``(code, step)`` of its end, SPK001 or SPK002; None while it lasts.

        Args:
            bank: fed with the newest record.
            record: the newest.
        """
        step = self.last_step = record.step
        if self.reason != "outlier":
            value = self.value(record, bank)
            if value is not None and math.isfinite(value) and value != 0.0:
                return "SPK001", step
            stays = step - self.alarm_step > LASTED * bank.every
            return ("SPK002", step) if stays else None
        run = bank.run(self.signal, since=self.onset_step)
        if run is None:
            return "SPK001", step
        if run.is_open:
            return None
        lasted = (run.end - run.start) / bank.every
        return ("SPK002" if lasted >= LASTED else "SPK001", run.end + 1)

    def finding(
        self, code: str, bank: SignalBank, rate: float, recovered: int | None = None
    ) -> Finding:
        """The finding ``code`` on it.

        Args:
            code: SPK000, SPK001 or SPK002.
            bank: fed with the newest record.
            rate: false alarms in 10 000 records that were asked for.
            recovered: first step back in the band.
        """
        entry = lookup(code)
        severity: Severity = "info" if code == "SPK001" else "warning"
        facts = bank.facts(self.signal, since=self.onset_step)
        others = [f.name for f in bank.strongest(NAMED + 1, since=self.onset_step)]
        signal, place = split_name(self.signal)
        evidence = {
            "incident": self.id,
            "judged_by": self.signal,
            "onset_step": self.onset_step,
            "onset_interval": list(self.onset_interval),
            "leading_signal": self.signal,
            "signals": [name for name in others if name != self.signal][:NAMED],
            "peak_step": self.onset_step if facts is None else facts.extreme_step,
            "before": None if facts is None else number_to_json(facts.before),
            "peak": None if facts is None else number_to_json(facts.extreme),
            "peak_nats": 0.0,
            "recovered_step": recovered if code == "SPK001" else None,
            "last_healthy_step": self.onset_interval[0] - 1,
            "rewind_to_step": None,
            "false_alarm_rate": rate,
        }
        return Finding(
            code=code,
            name=entry.name,
            severity=severity,
            place=Place(
                attempt=self.attempt,
                steps=(self.onset_step, max(self.last_step, self.onset_step)),
                signal=signal,
                layer=place,
            ),
            evidence=evidence,
            message=self._message(code, facts, others, recovered),
            actions=_actions(code, evidence),
        )

    def _message(
        self, code: str, facts: SignalFacts | None, others: list[str], recovered: int | None
    ) -> str:
        moved = _moved(self.signal, self.reason, facts)
        more = len({name for name in others if name != self.signal})
        company = f", with {more} other signal{'s' if more > 1 else ''}" if more else ""
        at = f"from step {self.onset_step}{company}"
        stays, stayed = "; the loss is on its course", "; the loss stayed on its course"
        if not self.loss_seen:
            stays = stayed = "; no loss is recorded"
        if code == "SPK001":
            return f"{moved} {at}, and was back at step {recovered}{stayed}"
        if code == "SPK002":
            return f"{moved} {at}, and stays at a new level{stayed}"
        return f"{moved} {at}{stays}"

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {**asdict(self), "onset_interval": list(self.onset_interval)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "SignalIncident":
        """Rebuild from :meth:`state_dict`."""
        first, last = state["onset_interval"]
        return cls(**{**state, "onset_interval": (first, last)})


def _moved(name: str, reason: str, facts: SignalFacts | None) -> str:
    """``update_rms left its course: x2.24, 0.0012 where 0.00054 ran,``."""
    if reason == "zero":
        return f"{name} was exactly 0, which it never was before,"
    if reason == "nonfinite" or facts is None:
        return f"{name} was not finite"
    known = signal_of(name)
    scale = facts.before > 0.0 and facts.extreme > 0.0 and (known is None or known.unit == "1")
    ratio = facts.extreme / facts.before if scale else math.nan
    times = f"x{ratio:.3g}, " if math.isfinite(ratio) else ""
    return f"{name} left its course: {times}{facts.extreme:.4g} where {facts.before:.4g} ran,"


def _actions(code: str, evidence: Mapping[str, Any]) -> tuple[str, ...]:
    if code == "SPK001":
        return ("no action: it came back by itself, and the loss did not move",)
    keep = f"keep the newest checkpoint at or before step {evidence['last_healthy_step']}"
    if code == "SPK000":
        return ("look at what changed at the onset: data, rate, precision, a restart", keep)
    return (keep, f"if the loss follows, {rewind(evidence)}")

"""What is told of an incident: the finding with its numbers in words, and what to do about it."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from surefoot.codes import lookup
from surefoot.detect import advice
from surefoot.detect.incident import OpenIncident
from surefoot.detect.strictness import DEFAULT_RATE
from surefoot.records import Finding, Place, Severity, number_to_json

TOLD = ("SPK000", "SPK001", "SPK002", "SPK003", "SPK004")
"""Codes of incidents of the loss."""

FALSE_ALARM_RATE = DEFAULT_RATE
"""False incidents per 10 000 healthy records that the loss detector is set to by default.

``benchmarks/detector_false_alarms.py`` measures what it has over a mix of healthy curves of twenty
kinds (``benchmarks/results/``); runs with heavy tails have more, steady ones hardly any.
"""

COSTLY = 10.0
"""From this cost on a spike that came back is a warning; nat times steps (0.01 nat over 1000)."""

_SHOWN = re.compile(r": `surefoot data show RUN[^`]*`")
_RUN = re.compile(r"\bRUN\b")
_REFERENCES = (
    "Chowdhery et al. 2022, 2204.02311 (restart before the spike, skip its batches)",
    "Page 1954, Biometrika 41 (cumulative sums)",
    "false_alarm_rate: as asked for; thresholds by benchmarks/detector_settings.py",
)


def incident_finding(
    incident: OpenIncident,
    code: str,
    *,
    attempt: int,
    recovered: int | None = None,
    at_end: bool = False,
    false_alarm_rate: float = FALSE_ALARM_RATE,
) -> Finding:
    """The finding ``code`` on an incident as it stands.

    Args:
        incident: the incident.
        code: SPK000 ... SPK004.
        attempt: attempt of the newest record.
        recovered: first step back on the course, if it came back.
        at_end: the data ended with the incident open.
        false_alarm_rate: false incidents per 10 000 healthy records that the detector was set to.
    """
    entry = lookup(code)
    severity: Severity = entry.severity
    if code == "SPK001" and incident.cost > COSTLY:
        severity = "warning"
    if code == "SPK002" and incident.signal != "loss":
        severity = "warning"
    record = incident.record(recovered=recovered)
    evidence: dict[str, Any] = {
        "incident": incident.id,
        "onset_step": incident.onset_step,
        "onset_interval": list(incident.onset_interval),
        "leading_signal": incident.leading_signal,
        "peak_step": incident.peak_step,
        "peak_nats": number_to_json(record.peak_nats),
        "recovered_step": recovered,
        "last_healthy_step": max(0, record.last_healthy_step),
        "rewind_to_step": None,
        "false_alarm_rate": false_alarm_rate,
        "known": incident.known,
    }
    if code == "SPK000":
        excess = incident.excess() if incident.signal == "loss" else None
        evidence |= {"excess_nats": excess, "at_end": at_end}
    if incident.nonfinite:
        evidence["nonfinite"] = {name: step for name, (step, _) in incident.nonfinite.items()}
        evidence["update_skipped"] = not incident.unskipped
        evidence["finite_step"] = incident.finite_step
    last = incident.last_step if recovered is None else recovered
    return Finding(
        code=code,
        name=entry.name,
        severity=severity,
        place=Place(
            attempt=attempt,
            steps=(incident.onset_step, max(last, incident.onset_step)),
            signal=incident.leading_signal,
        ),
        evidence=evidence,
        message=_message(incident, code, recovered, at_end),
        actions=advice.actions(code, evidence, costly=severity == "warning"),
        references=_REFERENCES,
    )


def came_back(finding: Finding, step: int) -> Finding:
    """A finding on values that were not finite, once the loss was back on its course at ``step``.

    It is told once, when it happens; how it went on is known to whoever reads the whole run.
    """
    evidence = {**finding.evidence, "recovered_step": step}
    return replace(
        finding,
        evidence=evidence,
        message=f"{finding.message}; finite and back on its course from step {step} on",
        actions=advice.actions(finding.code, evidence, costly=False),
    )


def with_checkpoints(
    finding: Finding, steps: Iterable[int], interval: int | None = None
) -> Finding:
    """The finding with ``rewind_to_step`` filled in: the newest checkpoint before the onset.

    Args:
        finding: any finding; one without ``last_healthy_step`` comes back as it is.
        steps: steps of the checkpoints that may be used (leave out quarantined ones). A checkpoint
            at step k holds the state after k updates; 0 is the initial state.
        interval: steps between checkpoints, where the run was asked for that and none is known by
            itself: then the one that should be there is named, with ``checkpoint_interval`` in the
            evidence to say so.
    """
    healthy = finding.evidence.get("last_healthy_step")
    if healthy is None:
        return finding
    target = max((step for step in steps if step <= healthy), default=None)
    evidence = {**finding.evidence, "rewind_to_step": target}
    if target is None and interval and healthy >= interval:
        evidence["rewind_to_step"] = healthy // interval * interval
        evidence["checkpoint_interval"] = interval
    if finding.code not in TOLD or evidence.get("judged_by", "loss") != "loss":
        return replace(finding, evidence=evidence)  # its advice does not depend on the checkpoint
    costly = finding.severity == "warning"
    return replace(
        finding, evidence=evidence, actions=advice.actions(finding.code, evidence, costly=costly)
    )


def for_run(finding: Finding, name: str, *, data: bool = True) -> Finding:
    """The finding with its run named: in its place, and in the commands it says to type.

    Args:
        finding: any finding.
        name: of the run.
        data: whether the run records what each step was fed; if not no command shows it.
    """
    if not data:
        actions = tuple(_SHOWN.sub("", action) for action in finding.actions)
        finding = replace(finding, actions=actions)
    actions = tuple(_RUN.sub(lambda _: name, action) for action in finding.actions)
    return replace(finding, place=replace(finding.place, run=name), actions=actions)


def _message(incident: OpenIncident, code: str, recovered: int | None, at_end: bool) -> str:
    """One sentence that holds the numbers."""
    onset = f"onset step {_interval(incident.onset_interval)}"
    led = f"led by {incident.leading_signal}"
    peak = f"peak {incident.peak:+.3g} nat at step {incident.peak_step}"
    of = "the loss" if incident.signal == "loss" else "the gradient norm"
    if incident.signal != "loss":
        peak = f"peak x{math.exp(min(incident.peak, 700.0)):.3g} at step {incident.peak_step}"
    course = "" if incident.level is None else f" of {_value(incident, incident.level)}"
    what = _nonfinite(incident)
    after = f"; {what}" if what else ""
    if code == "SPK000":
        return f"{_left(incident, of, course)}: {peak}, {onset}, {led}{_state(incident, at_end)}"
    if code == "SPK001":
        assert recovered is not None
        cost = f"; cost {incident.cost:.3g} nat x steps" if incident.signal == "loss" else ""
        took = advice.steps(recovered - incident.onset_step)
        return (
            f"{of} left its course{course} and was back at step {recovered}, {took} after the "
            f"onset: {peak}, {onset}, {led}{cost}"
        )
    if code in ("SPK002", "SPK003"):
        new, _ = incident.new_level()
        told = f"{of} did not come back: it settled at {_value(incident, new)}"
        if code == "SPK003":
            told = f"the loss diverged: {_value(incident, new)} at step {incident.last_step}"
        return f"{told}, {_compared(incident, new)}: {peak}, {onset}, {led}{after}"
    return f"{what}: {onset}, {led}{_state(incident, at_end)}"


def _left(incident: OpenIncident, of: str, course: str) -> str:
    """What left its course, and where the loss stood."""
    led = incident.leading_signal
    if incident.signal != "loss" or led == "loss":
        return f"{of} left its course{course}"
    who = "the gradient norm" if led == "grad_norm" else led
    loss = f"the loss ran at{course[3:]}" if course else "the course of the loss is not known yet"
    return f"{who} left its course, {loss}"


def _state(incident: OpenIncident, at_end: bool) -> str:
    """How it stood when the data ended."""
    if not at_end:
        return ""
    if incident.code == "SPK004" or incident.nonfinite:
        if incident.finite_step is None:
            return f"; still so when the data ended at step {incident.last_step}"
        if incident.streak:
            return (
                f"; finite again from step {incident.finite_step} on, when the data ended at step "
                f"{incident.last_step}"
            )
        return (
            f"; finite again from step {incident.finite_step} on, but off its course when the data "
            f"ended at step {incident.last_step}"
        )
    return f"; not back when the data ended at step {incident.last_step}"


def _nonfinite(incident: OpenIncident) -> str:
    """``the gradient norm was nan at step 7, the loss from step 8 on``; empty if all was finite."""
    told = sorted(incident.nonfinite.items(), key=lambda item: item[1][0])
    if not told:
        return ""
    signal, (step, value) = told[0]
    text = f"{_NAMES.get(signal, signal)} was {value} at step {step}"
    if len(told) > 1:
        signal, (step, later) = told[1]
        same = "" if later == value else f" was {later}"
        text += f", {_NAMES.get(signal, signal)}{same} from step {step} on"
    return text


_NAMES = {"loss": "the loss", "grad_norm": "the gradient norm"}


def _value(incident: OpenIncident, value: float) -> str:
    if incident.signal == "loss":
        return f"{value:.4g} nats"
    return f"{math.exp(min(value, 700.0)):.4g}"


def _compared(incident: OpenIncident, new: float) -> str:
    """The new level beside the old one and, where that was falling, beside its course by now.

    Differences are taken of the numbers as printed, so that the reader finds them again.
    """
    assert incident.level is not None
    if incident.signal != "loss":
        times = math.exp(min(new - incident.level, 700.0))
        return f"was {_value(incident, incident.level)} before (x{times:.3g})"
    now, before, course = (float(f"{v:.4g}") for v in (new, incident.level, incident.course()))
    if abs(before - course) < max(0.2 * abs(now - before), 0.005):
        return f"was {before:.4g} nats before ({now - before:+.3g} nat)"
    return (
        f"{now - course:+.3g} nat above its course, which by then would have fallen to "
        f"{course:.4g} nats from {before:.4g}"
    )


def _interval(interval: tuple[int, int]) -> str:
    first, last = interval
    return str(first) if first == last else f"{first} to {last}"


_USABILITY = {
    "LOG001": (
        "the gradient norm was exactly 0 on {records} records (steps {first_step} to {last_step}) "
        "while training went on: it is not recorded, and nothing is judged by it",
        ("log the global gradient norm before clipping, each step",),
    ),
    "LOG002": (
        "the loss was exactly -1 on {records} records (from step {first_step}): a placeholder of a "
        "rank that computes no loss, so the loss of this run cannot be watched",
        (
            "log the loss on the rank that computes it (with pipeline parallelism the last stage)",
            "until then watch the gradient norm",
        ),
    ),
    "LOG003": (
        "the loss was printed as exactly 0 with a gradient norm that is not finite (step "
        "{first_step}): a NaN masked by the logger, taken as NaN",
        ("log the loss unfiltered, e.g. logging_nan_inf_filter=False",),
    ),
    "LOG004": (
        "the loss was exactly 0 on {records} records (from step {first_step}) after it had run "
        "well above: no tokens counted or a masked NaN, and nothing is judged by it",
        (
            "check the number of counted tokens of these steps and log the loss unfiltered",
            "log the gradient norm beside it",
        ),
    ),
}


def usability_finding(code: str, evidence: Mapping[str, Any], *, attempt: int) -> Finding:
    """A finding of family LOG."""
    entry = lookup(code)
    text, actions = _USABILITY[code]
    return Finding(
        code=code,
        name=entry.name,
        severity=entry.severity,
        place=Place(
            attempt=attempt,
            steps=(evidence["first_step"], evidence["last_step"]),
            signal=evidence["signal"],
        ),
        evidence=dict(evidence),
        message=text.format(**evidence),
        actions=actions,
    )

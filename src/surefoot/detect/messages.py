"""What is told of an incident: the finding with its numbers in words, and what to do about it."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from surefoot.codes import lookup
from surefoot.detect.incident import OpenIncident
from surefoot.records import Finding, Place, Severity, number_to_json

FALSE_ALARM_RATE = 0.12
"""False incidents per 10 000 healthy steps, all signals and codes together.

The upper 95 % bound of what ``benchmarks/detector_false_alarms.py`` measured over its mix of
healthy runs: 24 incidents, 0.08, on 3.0 million steps (``benchmarks/results/``). Runs with heavy
tails have more, 0.44 with a bound of 0.90.
"""

COSTLY = 10.0
"""From this cost on a spike that came back is a warning; nat times steps (0.01 nat over 1000)."""

_RUN = re.compile(r"\bRUN\b")
_REFERENCES = (
    "Chowdhery et al. 2022, 2204.02311 (restart before the spike, skip its batches)",
    "Page 1954, Biometrika 41 (cumulative sums)",
    "false_alarm_rate: upper 95 % bound, measured by benchmarks/detector_false_alarms.py",
)


def incident_finding(
    incident: OpenIncident,
    code: str,
    *,
    attempt: int,
    recovered: int | None = None,
    at_end: bool = False,
) -> Finding:
    """The finding ``code`` on an incident as it stands.

    Args:
        incident: the incident.
        code: SPK000 ... SPK004.
        attempt: attempt of the newest record.
        recovered: first step back on the course, if it came back.
        at_end: the data ended with the incident open.
    """
    entry = lookup(code)
    severity: Severity = entry.severity
    if code == "SPK001" and incident.cost > COSTLY:
        severity = "warning"
    if code == "SPK002" and incident.signal != "loss":
        severity = "warning"
    record = incident.record(recovered=recovered)
    evidence = {
        "incident": incident.id,
        "onset_step": incident.onset_step,
        "onset_interval": list(incident.onset_interval),
        "leading_signal": incident.leading_signal,
        "peak_step": incident.peak_step,
        "peak_nats": number_to_json(record.peak_nats),
        "recovered_step": recovered,
        "last_healthy_step": record.last_healthy_step,
        "rewind_to_step": None,
        "false_alarm_rate": FALSE_ALARM_RATE,
    }
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
        actions=_actions(code, evidence, costly=severity == "warning"),
        references=_REFERENCES,
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
    costly = finding.severity == "warning"
    return replace(
        finding, evidence=evidence, actions=_actions(finding.code, evidence, costly=costly)
    )


def for_run(finding: Finding, name: str) -> Finding:
    """The finding with its run named: in its place, and in the commands it says to type."""
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
    if code == "SPK000":
        left = f"{of} left its course{course}"
        if incident.leading_signal == "grad_norm" and incident.signal == "loss":
            left = f"the gradient norm left its course, the loss ran at {incident.level:.4g} nats"
        state = f"; not back when the data ended at step {incident.last_step}" if at_end else ""
        return f"{left}: {peak}, {onset}, {led}{state}"
    if code == "SPK001":
        assert recovered is not None
        cost = f"; cost {incident.cost:.3g} nat x steps" if incident.signal == "loss" else ""
        return (
            f"{of} left its course{course} and was back at step {recovered}, "
            f"{_steps(recovered - incident.onset_step)} after the onset: {peak}, {onset}, "
            f"{led}{cost}"
        )
    what = "the loss" if incident.loss_nonfinite else "the gradient norm"
    value = (
        f"{what} was {incident.loss_nonfinite or 'not finite'} at step {incident.nonfinite_step}"
    )
    after = "" if incident.nonfinite_step is None else f"; {value}"
    if code == "SPK002":
        new, _ = incident.new_level()
        assert incident.level is not None
        return (
            f"{of} did not come back: it settled at {_value(incident, new)}, was "
            f"{_value(incident, incident.level)} before ({_rise(incident, new)}): "
            f"{peak}, {onset}, {led}{after}"
        )
    if code == "SPK003":
        new, _ = incident.new_level()
        assert incident.level is not None
        return (
            f"the loss diverged: {new:.4g} nats at step {incident.last_step}, {incident.level:.4g} "
            f"before ({_rise(incident, new)}): {peak}, {onset}, {led}{after}"
        )
    state = f"; still so when the data ended at step {incident.last_step}" if at_end else ""
    return f"{value}: {onset}, {led}{state}"


def _value(incident: OpenIncident, value: float) -> str:
    if incident.signal == "loss":
        return f"{value:.4g} nats"
    return f"{math.exp(min(value, 700.0)):.4g}"


def _rise(incident: OpenIncident, new: float) -> str:
    rise = new - incident.course()
    return f"{rise:+.3g} nat" if incident.signal == "loss" else f"x{math.exp(min(rise, 700.0)):.3g}"


def _interval(interval: tuple[int, int]) -> str:
    first, last = interval
    return str(first) if first == last else f"{first} to {last}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _actions(code: str, evidence: Mapping[str, Any], *, costly: bool) -> tuple[str, ...]:
    """Instructions, in order."""
    healthy, target = evidence["last_healthy_step"], evidence["rewind_to_step"]
    first, last = evidence["onset_interval"]
    where = (
        f"rewind to the newest checkpoint at or before step {healthy}"
        if target is None
        else f"rewind to step {target}: the newest checkpoint before the onset"
    )
    skip = f"skip the samples of steps {first} to {max(last, evidence['peak_step'])} after it"
    if code == "SPK000":
        return (
            "wait: most spikes come back by themselves; this incident is closed under its id",
            f"keep the newest checkpoint at or before step {healthy if target is None else target}",
        )
    if code == "SPK001":
        took = evidence["recovered_step"] - evidence["onset_step"]
        wait = f"no action: it came back by itself in {_steps(took)}"
        if not costly:
            return (wait,)
        return (wait, f"if it recurs, {where} and {skip}")
    if code == "SPK002":
        return (f"{where}, and {skip}", "if it returns on other data, lower the learning rate")
    if code == "SPK003":
        return (
            "stop: further steps are wasted",
            f"{where}, and {skip}",
            "if it diverges again on other data, lower the peak learning rate by a third",
        )
    return (
        f"look at the batch of step {last}: `surefoot data show RUN --step {last}`",
        f"{where}, and {skip}",
    )


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

"""Which alarm belongs to which fault: the matching rule of SpikeBench, in one place.

The rule, the same for every detector:

- **Incident.** What a detector tells under one incident id is one alarm. A detector that only flags
  steps has one alarm for each run of flags with gaps of at most 50 steps.
- **Found.** A fault is found if an alarm begins at or after its injection and no later than 200
  steps after it last acted or first showed, whichever is later. Further alarms of it count neither
  for nor against.
- **False.** An alarm is false if it begins on a healthy step: in a clean run, in a look-alike, in a
  run whose fault had no effect, or before an injection. A stretch that several cases share bit for
  bit (a faulty run and its clean twin up to the injection) counts once, in the twin.
- **Delay** is the alarm less the first manifest step, **lead** is the first step at which the loss
  shows it less the alarm. An alarm before anything was manifest counts as found (the truth's own
  threshold is not sharper than chance), but as delay 0, and its lead counts from the manifest step:
  nothing is gained by alarming blindly.
- **The whole run.** An alarm that names no step finds the fault of a faulty run and is false in a
  healthy one; it has neither delay nor lead nor onset.
- **Onset and cause** are those that were told last of the alarm that found the fault, or of the
  next one that names a cause. **The end** is that of the first incident of the loss that found it:
  the truth is about the loss.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from surefoot.records import Finding
from surefoot.testing.truth import Truth

GAP = 50
"""Flags at most so many steps apart are one alarm."""
HORIZON = 200
"""Steps after the fault last acted, or first showed, in which an alarm still finds it."""
EARLY = "SPK005"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One incident as a detector told it.

    Attributes:
        step: when it was first told.
        code: under which it was told last; "" for a detector without codes.
        first_code: under which it was told first.
        onset: first abnormal step by the detector's own estimate; None if it gives none.
        recovered: whether it says that the signal came back; None if it does not say.
        causes: its hypotheses of the cause, the likeliest first, as told last.
        first_onset: the onset that was told with the alarm.
        first_causes: the hypotheses that were told with the alarm: all that was known when somebody
            had to act.
        rewind: last step that it calls healthy, or None.
        signal: by which it is judged how it ends.
        leading: signal that left its course first, by the detector's own account.
        last: last step of it that is known: the last flag, or the first step back on the course.
        whole_run: it is about the run as a whole: it names no step, and was told after the end.
    """

    step: int
    code: str = ""
    first_code: str = ""
    onset: int | None = None
    recovered: bool | None = None
    causes: tuple[str, ...] = ()
    first_onset: int | None = None
    first_causes: tuple[str, ...] = ()
    rewind: int | None = None
    signal: str = "loss"
    leading: str = ""
    last: int | None = None
    whole_run: bool = False


def from_flags(steps: Iterable[int], *, injection: int | None = None) -> list[Alarm]:
    """Alarms of a detector that flags single steps.

    Args:
        steps: flagged steps, rising.
        injection: first faulty step: a flag from there on begins a new alarm, whatever was before,
            so that a detector which flags a lot is not said to have missed the fault.
    """
    alarms: list[Alarm] = []
    last: int | None = None
    for step in steps:
        crossed = injection is not None and last is not None and last < injection <= step
        if last is None or step - last > GAP or crossed:
            alarms.append(Alarm(step=step, onset=step, first_onset=step, last=step))
        else:
            alarms[-1] = replace(alarms[-1], last=step)
        last = step
    return alarms


def from_findings(told: Iterable[tuple[int, Finding]]) -> list[Alarm]:
    """Alarms of a detector that tells findings, the newest of an incident replacing those before.

    Args:
        told: step at which it was told, and the finding. A finding without an incident is an alarm
            by itself, or, of severity info, a remark and no alarm.
    """
    first: dict[str, tuple[int, Finding]] = {}
    newest: dict[str, Finding] = {}
    for step, finding in told:
        incident = finding.evidence.get("incident")
        if incident is None and finding.severity == "info":
            continue
        key = str(incident or f"{finding.code} at {step}")
        first.setdefault(key, (step, finding))
        newest[key] = _merged(newest.get(key), finding)
    alarms = [_alarm(step, finding, newest[key]) for key, (step, finding) in first.items()]
    return sorted(alarms, key=lambda alarm: alarm.step)


def _merged(before: Finding | None, finding: Finding) -> Finding:
    """The newer finding; causes told before stay if it names none."""
    if before is None or "causes" in finding.evidence or "causes" not in before.evidence:
        return finding
    return replace(finding, evidence={**finding.evidence, "causes": before.evidence["causes"]})


def _alarm(step: int, first: Finding, finding: Finding) -> Alarm:
    evidence = finding.evidence
    recovered: bool | None = None
    if finding.code == "SPK001" or evidence.get("recovered_step") is not None:
        recovered = True
    elif finding.code in ("SPK002", "SPK003", "SPK004"):
        recovered = False
    return Alarm(
        step=step,
        code=finding.code,
        first_code=first.code,
        onset=_integer(evidence.get("onset_step")),
        recovered=recovered,
        causes=tuple(_causes(evidence)),
        first_onset=_integer(first.evidence.get("onset_step")),
        first_causes=tuple(_causes(first.evidence)),
        rewind=_integer(evidence.get("last_healthy_step")),
        signal=str(evidence.get("judged_by", "loss")),
        leading=str(evidence.get("leading_signal", "")),
        last=_integer(evidence.get("recovered_step")),
    )


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _causes(evidence: Mapping[str, Any]) -> list[str]:
    found = evidence.get("causes") or []
    return [str(item["cause"]) if isinstance(item, Mapping) else str(item) for item in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a detector made of one case.

    Attributes:
        truth: of the case.
        found: whether the fault was found; None for a case without one.
        alarm: the alarm that found it.
        delay: steps from the first manifest step to the alarm, at least 0.
        lead: steps from the alarm to the first step at which the loss shows the fault; negative if
            the loss showed it first, None if it never did.
        onset_error: steps between the detector's onset and the first manifest step, for a fault
            that is a point in time; None if it is none or no onset was given.
        end_right: whether it said rightly that the loss came back, or did not; None if that is not
            known of the case. A detector that says neither is wrong.
        cause_rank: 1 if its first cause is right, 2 for its second ...; 0 if none is or none is
            named; None for a case that was not found or has no known cause.
        first_onset_error: the same of the onset that was told with the alarm.
        first_cause_rank: the same of the causes that were told with the alarm.
        early: whether the alarm that found it was an early warning (SPK005).
        false_alarms: the alarms that count as false.
        healthy_steps: records of the case that count as healthy.
    """

    truth: Truth
    found: bool | None = None
    alarm: Alarm | None = None
    delay: int | None = None
    lead: int | None = None
    onset_error: int | None = None
    end_right: bool | None = None
    cause_rank: int | None = None
    first_onset_error: int | None = None
    first_cause_rank: int | None = None
    early: bool = False
    false_alarms: tuple[Alarm, ...] = ()
    healthy_steps: int = 0


def judge(
    truth: Truth,
    alarms: Iterable[Alarm],
    twins: Collection[str] = (),
    *,
    records: int | None = None,
) -> Outcome:
    """The outcome of one case by the rule of this module.

    Args:
        truth: of the case.
        alarms: what the detector told over the whole case, by step.
        twins: names of the cases that are judged as well: the stretch shared with one of them is
            counted there.
        records: how many the case has, where not every step has one: healthy records are counted.
    """
    alarms = sorted(alarms, key=lambda alarm: alarm.step)
    first, last = healthy_span(truth, twins)
    false = [
        alarm
        for alarm in alarms
        if (truth.healthy if alarm.whole_run else first <= alarm.step <= last)
    ]
    healthy = max(0, last - first + 1)
    if records is not None and truth.steps:
        healthy = round(healthy * records / truth.steps)
    common: dict[str, Any] = {
        "truth": truth,
        "false_alarms": tuple(false),
        "healthy_steps": healthy,
    }
    if not truth.faulty:
        return Outcome(**common)
    begin, end = window(truth)
    found = [
        alarm
        for alarm in alarms
        if (alarm.whole_run or begin <= alarm.step <= end) and not alarm.code.startswith("LOG")
    ]
    known_end = truth.recovered is not None
    if not found:
        return Outcome(found=False, end_right=False if known_end else None, **common)
    alarm = found[0]
    manifest = truth.manifest_step if truth.manifest_step is not None else begin
    shown = truth.loss_manifest_step
    ends = [one for one in found if one.code != EARLY and one.recovered is not None]
    told = next((one.recovered for one in ends if one.signal == "loss"), None)
    if told is None and ends:
        told = ends[0].recovered
    causes = alarm.causes or next((other.causes for other in found if other.causes), ())
    return Outcome(
        found=True,
        alarm=alarm,
        delay=None if alarm.whole_run else max(0, alarm.step - manifest),
        lead=None if shown is None or alarm.whole_run else shown - max(alarm.step, manifest),
        onset_error=_apart(truth, alarm.onset, manifest),
        first_onset_error=_apart(truth, alarm.first_onset, manifest),
        end_right=told == truth.recovered if known_end else None,
        cause_rank=rank_of_cause(truth, causes) if truth.cause else None,
        first_cause_rank=rank_of_cause(truth, alarm.first_causes) if truth.cause else None,
        early=alarm.first_code == EARLY,
        **common,
    )


def _apart(truth: Truth, onset: int | None, manifest: int) -> int | None:
    return None if onset is None or not truth.point else abs(onset - manifest)


def healthy_span(truth: Truth, twins: Collection[str] = ()) -> tuple[int, int]:
    """First and last step of the case that count as healthy; last < first if there are none."""
    shared = truth.twin not in ("", truth.case) and truth.twin in twins
    begin = truth.injection_step or 1
    if truth.healthy:
        return (begin if shared else 1), truth.steps
    return (1, 0) if shared else (1, begin - 1)


def window(truth: Truth) -> tuple[int, int]:
    """First and last step at which an alarm may begin that finds the fault."""
    begin = truth.injection_step or 1
    acted = truth.last_injection_step or begin
    return begin, max(acted, truth.manifest_step or begin) + HORIZON


def rank_of_cause(truth: Truth, causes: Iterable[str]) -> int:
    """Rank of the first right cause, from 1; 0 if none is right.

    Of a held-out kind ``unknown`` is right, too: nobody may have taught the detector that kind.
    """
    right = {truth.cause, *truth.accepted} | ({"unknown"} if truth.held_out else set())
    for rank, cause in enumerate(causes, start=1):
        if cause in right:
            return rank
    return 0

"""From what the parts know to the evidence of an incident, and from that to its ranked causes."""

import math
from dataclasses import replace
from typing import Any

from surefoot.detect.advice import mend_first
from surefoot.detect.bank import SignalBank
from surefoot.detect.causes import rank
from surefoot.detect.context import Context
from surefoot.detect.evidence import Evidence, Hypothesis, SignalFacts
from surefoot.records import Finding

PLACES = 32
RANKED = 4
"""Causes that are told with a finding."""


def evidence_of(finding: Finding, context: Context, bank: SignalBank) -> Evidence:
    """The facts around the incident that ``finding`` tells of."""
    told = finding.evidence
    first, last = told["onset_interval"]
    onset = told["onset_step"]
    scalars = {}
    for name in bank.names():
        if "@" not in name:
            facts = bank.facts(name, since=onset)
            if facts is not None:
                scalars[name] = facts
    peak = told.get("peak_nats")
    evidence = context.evidence(
        code=finding.code,
        onset_step=onset,
        onset_interval=(first, last),
        alarm_step=_alarm(told["incident"], onset),
        leading_signal=told["leading_signal"],
        recovered=_recovered(finding),
        score=float(peak) if isinstance(peak, int | float) else 0.0,
    )
    broken = told.get("nonfinite", {}).get("loss")
    return replace(
        evidence,
        loss=evidence.loss if broken is None else _broken(evidence.loss, broken),
        scalars=scalars,
        places={f.name: f for f in bank.strongest(PLACES, since=onset, places=True)},
        place_count=bank.place_count(since=onset),
        zero_grad_places=tuple(
            name.partition("@")[2]
            for name in bank.zero_places(since=onset)
            if name.startswith("grad_norm@")
        ),
    )


def _broken(loss: SignalFacts | None, step: int) -> SignalFacts:
    """Facts of a loss that was NaN or infinite at ``step``; the context keeps finite ones only."""
    if loss is not None:
        return replace(loss, nonfinite_step=step)
    nan = math.nan
    return SignalFacts(
        name="loss",
        before=nan,
        at_onset=nan,
        extreme=nan,
        extreme_step=step,
        last=nan,
        score=0.0,
        out_since=step,
        nonfinite_step=step,
    )


def explained(finding: Finding, context: Context, bank: SignalBank) -> Finding:
    """The finding with its causes ranked, likeliest first, in ``evidence["causes"]``."""
    ranked = rank(evidence_of(finding, context, bank))
    causes = [_told(hypothesis) for hypothesis in ranked[:RANKED]]
    return replace(finding, evidence={**finding.evidence, "causes": causes})


def after(finding: Finding, tainted: tuple[str, int] | None) -> Finding:
    """The finding with a reference to the fault that came before it, if one did.

    Args:
        finding: of an incident.
        tainted: code and step of a restart that lost state; what was saved from there on holds it.
    """
    healthy = finding.evidence.get("last_healthy_step")
    if tainted is None or healthy is None or finding.evidence["onset_step"] < tainted[1]:
        return finding
    code, step = tainted
    earlier = {"code": code, "step": step}
    evidence = {
        **finding.evidence,
        "after_finding": earlier,
        "last_healthy_step": min(healthy, step - 1),
    }
    # Where another signal is meant, its advice is to keep a checkpoint that the restart has spoilt.
    rest = finding.actions if evidence.get("judged_by") == "loss" else ()
    return replace(finding, evidence=evidence, actions=(mend_first(earlier), *rest))


def _told(hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "cause": hypothesis.cause,
        "share": round(hypothesis.weight, 3),
        "supports": list(hypothesis.supports),
        "contradicts": list(hypothesis.contradicts),
        "experiment": hypothesis.experiment,
    }


def _recovered(finding: Finding) -> bool | None:
    if finding.code == "SPK001":
        return True
    return False if finding.code in ("SPK002", "SPK003") else None


def _alarm(incident: str, onset: int) -> int:
    """The alarm step is in the incident's id."""
    _, _, step = incident.rpartition("-s")
    return int(step) if step.isdigit() else onset

"""What to do about an incident: instructions that follow from its evidence, in order."""

from collections.abc import Mapping
from typing import Any

LARGE = 0.5
"""Nats above the course from which waiting at the end of a log is no longer the advice."""
JUMP = 4.0
"""Nats above the course that no batch alone makes: the weights, or what reads them, changed."""


def actions(code: str, evidence: Mapping[str, Any], *, costly: bool) -> tuple[str, ...]:
    """Instructions, in order.

    Args:
        code: SPK000 ... SPK004.
        evidence: of the finding, ``rewind_to_step`` filled in where a checkpoint is known.
        costly: whether a spike that came back cost much.
    """
    earlier = evidence.get("after_finding")
    if earlier is not None:
        rest = {key: value for key, value in evidence.items() if key != "after_finding"}
        return (mend_first(earlier), *actions(code, rest, costly=costly))
    if code == "SPK000":
        return _opened(evidence)
    if code == "SPK001":
        took = evidence["recovered_step"] - evidence["onset_step"]
        wait = f"no action: it came back by itself in {steps(took)}"
        return (wait, f"if it recurs, {rewind(evidence)}") if costly else (wait,)
    if code == "SPK002":
        return (
            rewind(evidence),
            "if it returns on other data, lower the learning rate",
        )
    if code == "SPK003":
        return (
            "stop: further steps are wasted",
            rewind(evidence),
            "if it diverges again on other data, lower the peak learning rate by a third",
        )
    return _not_finite(evidence)


def mend_first(earlier: Mapping[str, Any]) -> str:
    """The instruction where a restart lost state before: ``code`` and ``step`` of that finding."""
    code, step = earlier["code"], earlier["step"]
    return (
        f"first mend what {code} told of step {step}: this may be its late consequence, and every "
        f"checkpoint from step {step} on was saved after it"
    )


def _opened(evidence: Mapping[str, Any]) -> tuple[str, ...]:
    told, at_end = evidence.get("excess_nats"), evidence.get("at_end", False)
    excess = told if isinstance(told, float) else 0.0
    if excess >= JUMP or (at_end and excess >= LARGE):
        return (
            f"do not count on its coming back: the loss is still {excess:+.3g} nat above its "
            f"course; compare the weights with those of the checkpoint before the onset",
            f"unless it falls within some steps, {rewind(evidence)}",
        )
    target = evidence["rewind_to_step"]
    kept = evidence["last_healthy_step"] if target is None else target
    keep = (
        f"keep the newest checkpoint at or before step {kept}"
        if kept > 0
        else "keep the initial weights: nothing healthy was seen before it"
    )
    if at_end:
        return ("go on and look again: the records are too few to say how it ends", keep)
    return ("wait: most spikes come back by themselves; this incident is closed under its id", keep)


def _not_finite(evidence: Mapping[str, Any]) -> tuple[str, ...]:
    last = evidence["onset_interval"][1]
    look = f"look at the batch of step {last}: `surefoot data show RUN --step {last}`"
    if evidence.get("recovered_step") is not None or evidence.get("finite_step") is not None:
        return (
            look,
            "no rewind: the loss was finite and on its course again; find out whether the update "
            "of that step was skipped, and log `update_skipped`"
            if evidence.get("recovered_step") is not None
            else "no rewind yet: the loss is finite again; see whether it stays on its course",
        )
    if evidence.get("update_skipped"):
        return (look, "no rewind: the update was skipped, so the weights are as they were")
    return (look, rewind(evidence))


def rewind(evidence: Mapping[str, Any]) -> str:
    """Where to go back to, and what to leave out after it."""
    healthy, target = evidence["last_healthy_step"], evidence["rewind_to_step"]
    first, last = evidence["onset_interval"]
    skip = f"skip the samples of steps {first} to {max(last, evidence['peak_step'])} after it"
    if target is not None:
        return f"rewind to step {target}: the newest checkpoint before the onset, and {skip}"
    if not evidence.get("known", True):
        # Nothing healthy is on record: a checkpoint "before the onset" would be a guess.
        begin = "from the initial weights" if healthy <= 0 else "from before this record begins"
        return (
            f"start again {begin}: it holds from the first record on, so nothing here is known to "
            "be healthy; check data, precision and learning rate first"
        )
    if healthy <= 0:
        return f"start again from the initial weights: the onset is the first update, and {skip}"
    return f"rewind to the newest checkpoint at or before step {healthy}, and {skip}"


def steps(count: int) -> str:
    """``1 step``, ``2 steps``."""
    return "1 step" if count == 1 else f"{count} steps"

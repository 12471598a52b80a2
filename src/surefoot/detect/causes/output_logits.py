"""Output logits that drift away: the log-sum-exp, or the norm of the head, grows for long."""

import re

from surefoot.detect.causes._picture import EARLY, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis, SignalFacts
from surefoot.records import split_name

CAUSE = "output-logits"
EXPERIMENT = (
    "rewind to a checkpoint before the drift and go on with a z-loss of weight 1e-4 (or weight "
    "decay on the head): if the loss no longer rises on the same data it was the output logits; "
    "an optimizer reset or less weight decay is known not to help"
)
LOG_Z = ("log_z", "log_z_abs_max", "z_loss")
DRIFTS = 2
LONG = 8
GROWN = 1.3
FAR = 5.0
"""Nats by which a log-sum-exp moves only if nothing holds it: e^5 in every logit."""
CLIMB = 20
_HEAD = re.compile(r"(lm_?head|^head|output_?(proj|layer|embed)|unembed|logits?)", re.IGNORECASE)


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of output-logit drift (Chowdhery et al. 2022, 2204.02311; Wortsman 2309.14322).

    Cross-entropy does not hold the log-sum-exp where it is: without a z-loss it drifts, slowly, and
    the head's norm with it, while other norms stand still. A log-sum-exp that jumps in the record
    in which the loss does is an effect of whatever did that.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    heads = _heads(p)
    known = p.of(*LOG_Z)
    if not known and not heads:
        scale.add(-WEAK, "neither log_z nor the norm of the head is recorded")
    if known:
        _drift(p, scale)
    _norms(p, scale, heads)
    if p.led_by(*LOG_Z) and p.e.code == EARLY:
        scale.add(STRONG + FAIR, f"the early warning came from {p.e.leading_signal}")
    elif p.led_by(*LOG_Z):
        scale.add(FAIR, f"it led: {p.e.leading_signal} was the first signal out")
    if p.at_restart:
        scale.add(-STRONG, "it began at a restart")
    if p.loss.brief:
        scale.add(-FAIR, f"the loss was back after {len(p.loss.above or ())} records")
    return scale.result()


def _drift(p: Picture, scale: Balance) -> None:
    out = p.out(*LOG_Z)
    if not out:
        if p.e.code == EARLY and p.led_by(*LOG_Z):
            return
        scale.add(-WEAK, f"{p.of(*LOG_Z)[0].name} kept its course")
        return
    first = out[0]
    moved = f" ({first.before:.3g} to {first.extreme:.3g})"
    climbed = [
        f
        for f in out
        if f.name != "z_loss"
        and abs(f.extreme - f.before) >= FAR
        and f.extreme_step - (f.out_since or 0) >= CLIMB * p.every
    ]
    if climbed and not p.loss.back:
        took = climbed[0].extreme_step - (climbed[0].out_since or 0)
        scale.add(
            STRONG + WEAK,
            f"{climbed[0].name} went from {climbed[0].before:.3g} to {climbed[0].extreme:.3g} over "
            f"{took} steps: far more than any loss needs",
        )
        return
    lead = p.lead(first)
    jumped = first.extreme_step - (first.out_since or 0) < DRIFTS * p.every
    if lead is None and not p.loss_now:
        others = [f for f in p.now(*_OTHERS) if abs(f.score) >= abs(first.score)]
        if others:
            scale.add(-WEAK, f"{others[0].name} left its course further, at the same time")
        else:
            scale.add(STRONG, f"{first.name} left its course{moved}, the loss kept its")
    elif lead is not None and lead >= LONG * p.every:
        scale.add(STRONG, f"{first.name} left its course {lead:.0f} steps before the loss{moved}")
    elif lead is not None and lead > p.every and not jumped:
        scale.add(WEAK, f"{first.name} left its course {lead:.0f} steps before the loss{moved}")
    else:
        scale.add(-FAIR, f"{first.name} stood out with the loss, not before it{moved}")


_OTHERS = ("grad_norm", "adam_rms", "update_rms", "update_ratio", "attention_logit_max")


def _heads(p: Picture) -> list[SignalFacts]:
    """Norms of the output head, under whatever name a trainer logs them."""
    found = []
    for name, facts in [*p.e.scalars.items(), *p.e.places.items()]:
        signal, place = split_name(name)
        where = place if place is not None else signal
        is_norm = signal == "param_norm" or (place is None and "norm" in signal)
        if is_norm and "grad" not in signal and _HEAD.search(where.removeprefix("norm_")):
            found.append(facts)
    return found


def _norms(p: Picture, scale: Balance, heads: list[SignalFacts]) -> None:
    others = [
        f
        for name, f in p.e.scalars.items()
        if "norm" in name and "grad" not in name and f not in heads
    ]
    for facts in heads:
        last = facts.last if facts.out_since is None else facts.extreme
        ratio = last / facts.before if facts.before > 0.0 else 1.0
        calm = [f for f in others if abs(f.trend) < 0.2 * abs(facts.trend)]
        grown = facts.trend >= 4.0 and len(calm) == len(others)
        if not grown and not (ratio >= GROWN and facts.score > 0.0):
            continue
        text = "" if ratio < 1.05 else f" ({factor(ratio)} to {last:.4g})"
        scale.add(STRONG, f"the head's norm {facts.name} grows{text}")
        if others and len(calm) == len(others):
            scale.add(FAIR, f"the other norms stand still ({len(others)} recorded)")
        return

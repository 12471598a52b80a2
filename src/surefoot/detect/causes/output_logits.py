"""Output logits that drift away: the log-sum-exp, or the norm of the head, grows for long."""

import re

from surefoot.detect.causes._picture import Picture
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
LONG = 10
_HEAD = re.compile(r"(lm_?head|^head|output_?(proj|layer|embed)|unembed|logits?)", re.IGNORECASE)


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of output-logit drift (Chowdhery et al. 2022, 2204.02311; Wortsman 2309.14322).

    Cross-entropy does not hold the log-sum-exp where it is: without a z-loss it drifts, slowly, and
    the head's norm with it, while other norms stand still. A log-sum-exp that jumps in the record
    in which the loss does is an effect of whatever did that.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    known = [f for name in LOG_Z for f in p.of(name)]
    _drift(p, scale, known)
    heads = _heads(p)
    _norms(p, scale, heads)
    if not known and not heads:
        scale.add(-WEAK, "neither log_z nor the norm of the head is recorded")
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.sudden and p.back and (p.high or 0) <= 3:
        scale.add(-FAIR, f"the loss jumped in one record and was back after {p.high}")
    return scale.result()


def _drift(p: Picture, scale: Balance, known: list[SignalFacts]) -> None:
    if not known:
        return
    grown = max(known, key=lambda f: abs(f.trend))
    if abs(grown.trend) >= 4.0:
        scale.add(
            FAIR, f"{grown.name} drifted before the onset, {grown.trend:+.2g} noise units in 100"
        )
    out = [f for f in known if abs(f.score) >= 1.0 and f.out_since is not None]
    if not out:
        scale.add(-WEAK, f"{known[0].name} kept its course")
        return
    first = min(out, key=lambda f: f.out_since or 0)
    lead = p.lead(first)
    moved = f" ({first.before:.3g} to {first.extreme:.3g})"
    if lead is None or lead >= LONG:
        text = "" if lead is None else f", {lead} steps before the loss"
        scale.add(STRONG, f"{first.name} left its course{text}{moved}")
    elif lead > 0:
        scale.add(WEAK, f"{first.name} left its course {lead} steps before the loss{moved}")
    else:
        scale.add(-WEAK, f"{first.name} stood out with the loss, not before it{moved}")
    if split_name(p.e.leading_signal)[0] in LOG_Z:
        scale.add(WEAK, f"it led: {p.e.leading_signal} was the first signal out")


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
    for facts in heads:
        ratio = p.ratio(facts)
        grown = facts.trend >= 4.0 or (ratio is not None and ratio >= 1.5 and facts.score > 0.0)
        if not grown:
            continue
        text = "" if ratio is None or ratio < 1.05 else f" ({factor(ratio)} to {facts.extreme:.4g})"
        scale.add(STRONG, f"the head's norm {facts.name} grows{text}")
        others = [
            f
            for name, f in p.e.scalars.items()
            if "norm" in name and "grad" not in name and name != facts.name
        ]
        if others and all(abs(f.trend) < 4.0 and abs(f.score) < 1.0 for f in others):
            scale.add(WEAK, f"the other norms stand still ({len(others)} recorded)")
        return

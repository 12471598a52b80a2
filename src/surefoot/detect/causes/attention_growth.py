"""Attention logits that grow until the softmax is one-hot and the layer stops learning."""

import math

from surefoot.detect.causes._picture import EARLY, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis, SignalFacts

CAUSE = "attention-growth"
EXPERIMENT = (
    "rewind to the checkpoint before the growth and go on with QK-clip at 100 (or QK-norm from the "
    "start of a new run): if the loss holds on the same data, it was the attention logits"
)
SIGNAL = "attention_logit_max"
HIGH = 50.0
"""A logit of 50 leaves e^-50 for a key that is 50 lower: one-hot in fp32."""
DIVERGED = 1000.0
"""Divergence is seen from about 1e4 on (Wortsman et al. 2023); ten times less is on its way."""
CLIMBS = 8.0
SMALL = 4.0
"""Logits that no softmax suffers from."""
GROWS = 3
"""Records over which it must have gone on growing: a jump is an effect of something else."""
LONG = 8
OTHERS = ("grad_norm", "adam_rms", "update_rms", "update_ratio", "log_z")


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of attention-logit growth (Wortsman et al. 2023, 2309.14322).

    It is slow: the largest logit grows for tens to thousands of steps while loss and gradient norm
    look well; the gradient norm may stay under 3 at a logit of 9e4. A logit that jumps together
    with everything else is an effect, not a cause.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    known = p.of(SIGNAL)
    if not known:
        scale.add(-WEAK, f"{SIGNAL} is not recorded")
        return scale.result()
    top = max((f.before for f in known if math.isfinite(f.before)), default=0.0)
    trend = max(f.trend for f in known)
    climbs = top >= HIGH and trend >= CLIMBS
    grown = [f for f in p.out(SIGNAL) if f.score > 0.0 and f.extreme >= SMALL]
    slow = [f for f in grown if f.extreme_step - (f.out_since or 0) >= GROWS * p.every]
    if slow:
        _growth(p, scale, slow[0])
    elif grown:
        scale.add(-WEAK, f"{grown[0].name} jumped in one record, with the rest")
    elif not climbs and top < DIVERGED and not (p.e.code == EARLY and p.led_by(SIGNAL)):
        low = p.out(SIGNAL)
        scale.add(-FAIR, f"{low[0].name} fell" if low else f"{known[0].name} kept its course")
    if top >= DIVERGED:
        scale.add(
            STRONG + FAIR, f"the largest attention logit stood at {top:.3g}: they diverge near 1e4"
        )
    elif top >= HIGH:
        scale.add(FAIR, f"the largest attention logit already stood at {top:.3g} before the onset")
        if climbs and top >= 2.0 * HIGH:
            scale.add(FAIR, f"it was growing by {trend:.2g} noise units in 100 records")
    if p.led_by(SIGNAL) and p.e.code == EARLY:
        scale.add(STRONG + FAIR, f"the early warning came from {p.e.leading_signal}")
    elif p.led_by(SIGNAL) and slow:
        scale.add(FAIR, f"it led: {p.e.leading_signal} was the first signal out")
    if p.young:
        scale.add(-FAIR, f"step {p.e.alarm_step} is early in the run: growth takes its time")
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.loss.brief:
        scale.add(-FAIR, f"the loss was back after {len(p.loss.above or ())} records")
    return scale.result()


def _growth(p: Picture, scale: Balance, first: SignalFacts) -> None:
    lead, ratio = p.lead(first), p.ratio(first)
    rose = "" if ratio is None else f" ({factor(ratio)} to {first.extreme:.3g})"
    took = first.extreme_step - (first.out_since or 0)
    louder = [f for f in p.now(*OTHERS) if abs(f.score) >= abs(first.score)]
    if first in p.now(SIGNAL) and louder:
        scale.add(-FAIR, f"{first.name} moved with {louder[0].name}, in the same record")
    elif lead is None:
        scale.add(STRONG, f"{first.name} grew for {took} steps{rose}, the loss kept its course")
    elif lead >= LONG * p.every:
        scale.add(STRONG, f"{first.name} left its course {lead:.0f} steps before the loss{rose}")
    elif lead > 0:
        scale.add(FAIR, f"{first.name} left its course {lead:.0f} steps before the loss{rose}")
    else:
        scale.add(-FAIR, f"{first.name} grew with or after the loss, not before it{rose}")

"""Attention logits that grow until the softmax is one-hot and the layer stops learning."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "attention-growth"
EXPERIMENT = (
    "rewind to the checkpoint before the growth and go on with QK-clip at 100 (or QK-norm from the "
    "start of a new run): if the loss holds on the same data, it was the attention logits"
)
HIGH = 50.0
"""A logit of 50 leaves e^-50 for a key that is 50 lower: one-hot in fp32."""
LOW = 20.0
LONG = 20


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of attention-logit growth (Wortsman et al. 2023, 2309.14322).

    It is slow: the largest logit grows for tens to thousands of steps while loss and gradient norm
    look well; the gradient norm may stay under 3 at a logit of 9e4. A logit that jumps together
    with everything else is an effect, not a cause.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    known = p.of("attention_logit_max")
    if not known:
        scale.add(-WEAK, "attention_logit_max is not recorded")
        return scale.result()
    top = max(known, key=lambda f: f.extreme)
    if top.extreme <= LOW and top.before <= LOW:
        scale.add(-STRONG, f"the largest attention logit was {top.extreme:.3g}")
        return scale.result()
    grown = max(known, key=lambda f: f.trend)
    if grown.trend >= 4.0:
        scale.add(
            FAIR, f"{grown.name} grew before the onset, by {grown.trend:.2g} noise units in 100"
        )
    if top.before >= HIGH:
        scale.add(STRONG, f"{top.name} already stood at {top.before:.3g} before the onset")
    out = [f for f in known if f.score >= 1.0 and f.out_since is not None]
    if out:
        first = min(out, key=lambda f: f.out_since or 0)
        lead = p.lead(first)
        ratio = p.ratio(first)
        rose = "" if ratio is None else f" ({factor(ratio)} to {first.extreme:.3g})"
        if lead is None or lead >= LONG:
            text = "" if lead is None else f", {lead} steps before the loss"
            scale.add(STRONG, f"{first.name} left its course{text}{rose}")
        elif lead > 0:
            scale.add(FAIR, f"{first.name} left its course {lead} steps before the loss{rose}")
        else:
            scale.add(-WEAK, f"{first.name} stood out with the loss, not before it{rose}")
    if p.e.leading_signal.startswith("attention_logit_max"):
        scale.add(FAIR, f"it led: {p.e.leading_signal} was the first signal out")
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.sudden and p.back and (p.high or 0) <= 3:
        scale.add(-FAIR, f"the loss jumped in one record and was back after {p.high}")
    return scale.result()

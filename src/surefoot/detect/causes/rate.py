"""The learning rate: too high for this state of the model, raised at a stroke, or not warmed up."""

from surefoot.detect.causes._picture import SOON, UPDATES, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "rate"
EXPERIMENT = (
    "rewind to the checkpoint before the onset and go on with the same data at half the learning "
    "rate: if that holds it was the rate (and once with other data at the old rate)"
)
LONG = 400


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a learning rate that is too high.

    Beyond the stability threshold (2 + 2 b1) / ((1 - b1) rate) of the preconditioned curvature the
    updates overshoot (Cohen et al. 2022, 2207.14484): update size and gradient rise over several
    steps, successive gradients turn against each other, the loss climbs in oscillations. A rate
    raised at a stroke shows in the rate itself, and in the updates of the same record.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    _rate(p, scale)
    for facts in p.out(*UPDATES):
        ratio = p.ratio(facts)
        if facts.score > 0.0 and ratio is not None and ratio >= 1.5:
            scale.add(WEAK, f"{facts.name} rose {factor(ratio)}")
            break
    if p.grows is not None:
        scale.add(
            WEAK, f"{p.grows.name} grew from record to record to {p.grows.extreme:.3g}: overshoot"
        )
    cosine = p.scalar("grad_cosine")
    if cosine is not None and cosine.out_since is not None and cosine.extreme < -0.15:
        scale.add(WEAK, f"gradients turned against their mean: grad_cosine {cosine.extreme:.2g}")
    if p.impossible:
        scale.add(-STRONG, p.impossible)
    if p.loss.above is not None and p.loss.rise >= 5 and not p.loss.back:
        scale.add(WEAK, f"the loss climbed over {p.loss.rise} records")
    if p.loss.brief:
        scale.add(-STRONG, f"the loss was back after {len(p.loss.above or ())} records")
    if (p.loss.turns or 0.0) >= 0.75:
        scale.add(WEAK, "the loss went up and down from record to record")
    if p.at_restart and p.jump is None:
        scale.add(-FAIR, "it began at a restart with the rate as before")
    return scale.result()


def _rate(p: Picture, scale: Balance) -> None:
    e = p.e
    for code, step in e.contradictions:
        if code in ("CKP001", "SCH001"):
            scale.add(FAIR, f"{code} at step {step}: the rate is not the one that was asked for")
            break
    if p.jump is not None:
        at, by = p.jump
        if by is not None and by < 0.9:
            scale.add(-WEAK, f"the learning rate fell ({factor(by)}) at step {at}")
        else:
            text = "" if by is None else f" ({factor(by)})"
            scale.add(STRONG + WEAK, f"the learning rate jumped{text} at step {at}")
        return
    ups = [(at, by) for at, by in e.rate_jumps if at <= e.onset_interval[1]]
    if ups and ups[-1][1] >= 1.5 and e.onset_step - ups[-1][0] <= LONG * p.every:
        scale.add(STRONG, f"the learning rate runs {factor(ups[-1][1])} since step {ups[-1][0]}")
        return
    rate, peak = e.rate_at if e.rate_at is not None else e.rate_before, e.rate_peak
    if rate is None or peak is None or peak <= 0.0:
        return
    near = p.main - e.onset_step <= SOON * p.every
    if p.grown is not None and p.grown >= 1.3 and not p.young and near:
        scale.add(
            STRONG, f"the learning rate was rising: {factor(p.grown)} in 100 records, to {rate:.3g}"
        )
    elif p.young and rate >= 0.5 * peak:
        scale.add(FAIR, f"step {e.alarm_step} is early in the run, at a rate of {rate:.3g}")
    elif rate < 0.2 * peak:
        scale.add(-WEAK, f"the rate had come down to {rate:.2g} of a peak of {peak:.2g}")

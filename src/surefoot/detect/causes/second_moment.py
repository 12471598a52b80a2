"""Adam's second moment: it lags behind the gradient, or eps is not small beside its root."""

from surefoot.detect.causes._picture import EARLY, UPDATES, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "second-moment"
EXPERIMENT = (
    "rewind to the checkpoint before the onset and run the same data with beta2 0.95 (or updates "
    "scaled by 1 / max(1, adam_rms)), and once with eps 1e-8 or less: if that holds, it was the "
    "second moment"
)
LAGS = 2.3
"""Adam's RMS from which updates are too large (Wortsman et al. 2023, 2304.13013)."""
SOON = 8
LEAPS = 5.0
"""Growth of the updates that a batch alone does not make."""
DAMPED = 0.6
"""Adam's RMS, over its level before, under which eps (or a v from elsewhere) holds the updates."""


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a second moment that no longer fits the gradient.

    RMS_t = sqrt(mean(g^2 / v)) above 2.3 in a tensor means that v is out of date; loss spikes
    follow 1 to 8 steps later (Wortsman et al. 2023, 2304.13013). An eps that is not small beside
    sqrt(v) damps the updates of whole layers (Molybog et al. 2023, 2304.09871): then adam_rms falls
    well below 1 with the gradient as ever.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    if not p.of("adam_rms", "eps_share"):
        scale.add(-WEAK, "adam_rms and eps_share are not recorded")
        return scale.result()
    _lag(p, scale)
    _eps(p, scale)
    if p.led_by("adam_rms", "eps_share") and p.e.code == EARLY:
        scale.add(STRONG, f"the early warning came from {p.e.leading_signal}")
    elif p.led_by("adam_rms", "eps_share") and not p.loss_now:
        scale.add(WEAK, f"it led: {p.e.leading_signal} was the first signal out")
    if p.grows is not None:
        scale.add(
            WEAK, f"{p.grows.name} grew from record to record to {p.grows.extreme:.3g}: overshoot"
        )
    if p.at_restart:
        scale.add(-STRONG, "it began at a restart")
    if p.forward_finite:
        scale.add(-FAIR, f"{p.nonfinite[0].name} was not finite: an overflow is no lag")
    if p.jump is not None:
        scale.add(-FAIR, f"the learning rate jumped at step {p.jump[0]}")
    if p.loss.brief:
        scale.add(-WEAK, f"the loss was back after {len(p.loss.above or ())} records")
    return scale.result()


def _lag(p: Picture, scale: Balance) -> None:
    out = [f for f in p.out("adam_rms") if f.score > 0.0]
    high = [f for f in out if f.extreme >= LAGS]
    if not out:
        return
    first = (high or out)[0]
    steps = [f for f in p.out(*UPDATES) if f.score > 0.0 and (p.ratio(f) or 0.0) >= LEAPS]
    if high and steps and p.jump is None and not p.at_restart:
        grown = factor(p.ratio(steps[0]) or 0.0)
        scale.add(
            STRONG + FAIR,
            f"{first.name} reached {first.extreme:.2g} and {steps[0].name} rose {grown} at the "
            "same rate: a gradient that v had not seen for long",
        )
        return
    lead = p.lead(first)
    value = f"{first.name} reached {first.extreme:.2g}"
    if not high:
        scale.add(WEAK if lead is None or lead > 0 else 0.0, f"{value}, not beyond {LAGS}")
    elif lead is None:
        scale.add(WEAK, f"{value}, the loss kept its course")
    elif p.every <= lead <= SOON * p.every:
        scale.add(STRONG, f"{value} and left its course {lead:.0f} steps before the loss")
    elif lead > 0:
        scale.add(FAIR, f"{value} and left its course {lead:.0f} steps before the loss")
    else:
        scale.add(-WEAK, f"{value} with the loss, not before it")


def _eps(p: Picture, scale: Balance) -> None:
    shares = [f for f in p.out("eps_share") if f.extreme >= 0.1 and f.score > 0.0]
    if shares:
        top = shares[0]
        scale.add(
            STRONG,
            f"{top.name} rose from {max(0.0, top.before):.2g} to {top.extreme:.2g}: "
            "eps damps these updates",
        )
    low = [f for f in p.now("adam_rms") if f.score < 0.0 and (p.ratio(f) or 1.0) <= DAMPED]
    if low and not p.now("grad_norm") and not p.loss_now:
        scale.add(
            FAIR,
            f"{low[0].name} fell {factor(p.ratio(low[0]) or 0.0)} with the gradient as ever",
        )

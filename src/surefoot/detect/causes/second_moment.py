"""Adam's second moment: it lags behind the gradient, or eps is not small beside its root."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis, SignalFacts

CAUSE = "second-moment"
EXPERIMENT = (
    "rewind to the checkpoint before the onset and run the same data with beta2 0.95 (or updates "
    "scaled by 1 / max(1, adam_rms)), and once with eps 1e-8 or less: if that holds, it was the "
    "second moment"
)
LAGS = 2.3
"""Adam's RMS from which updates are too large (Wortsman et al. 2023, 2304.13013)."""
SOON = 8


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a second moment that no longer fits the gradient.

    RMS_t = sqrt(mean(g^2 / v)) above 2.3 in a tensor means that v is out of date; loss spikes
    follow 1 to 8 steps later (Wortsman et al. 2023, 2304.13013). An eps that is not small beside
    sqrt(v) damps the updates of whole layers (Molybog et al. 2023, 2304.09871).
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    known = p.of("adam_rms")
    shares = p.of("eps_share")
    if not known and not shares:
        scale.add(-WEAK, "adam_rms and eps_share are not recorded")
        return scale.result()
    _lag(p, scale, known)
    _eps(p, scale, shares)
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-FAIR, f"the learning rate jumped at step {p.jump[0]}")
    return scale.result()


def _lag(p: Picture, scale: Balance, known: list[SignalFacts]) -> None:
    if not known:
        return
    out = [f for f in known if f.extreme >= LAGS and f.score >= 1.0 and f.out_since is not None]
    if not out:
        top = max(known, key=lambda f: f.extreme)
        scale.add(-FAIR, f"adam_rms was {top.extreme:.2g} at most, under {LAGS}")
        return
    first = min(out, key=lambda f: (f.out_since or 0, -f.extreme))
    lead = p.lead(first)
    value = f"{first.name} reached {first.extreme:.2g}"
    if lead is None:
        scale.add(WEAK, f"{value}, the loss kept its course")
    elif 1 <= lead <= SOON * max(1.0, p.e.record_every):
        scale.add(STRONG, f"{value} and left its course {lead} steps before the loss")
    elif lead > 0:
        scale.add(FAIR, f"{value} and left its course {lead} steps before the loss")
    else:
        scale.add(-WEAK, f"{value} with the loss, not before it")


def _eps(p: Picture, scale: Balance, shares: list[SignalFacts]) -> None:
    moved = [f for f in shares if f.extreme >= 0.1 and (f.score >= 1.0 or f.trend >= 4.0)]
    if moved:
        top = max(moved, key=lambda f: f.extreme)
        scale.add(
            STRONG,
            f"{top.name} rose from {top.before:.2g} to {top.extreme:.2g}: eps damps these updates",
        )
    elif shares and max(f.extreme for f in shares) >= 0.3:
        top = max(shares, key=lambda f: f.extreme)
        scale.add(FAIR, f"{top.name} stands at {top.extreme:.2g}: eps damps these updates")

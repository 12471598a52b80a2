"""State that a restart lost or mixed up: weights, moments, step counter, schedule, data order."""

from surefoot.detect.causes._picture import UPDATES, Picture
from surefoot.detect.causes._weighing import DECISIVE, FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "resume-state"
EXPERIMENT = (
    "load the checkpoint and compare with what was saved: weights (and fp32 masters), moments, "
    "Adam's step counter, the schedule's position, the next sample; then resume once more with "
    "each restored by hand"
)
SOON = 60
MEANING = {
    "CKP001": "the schedule began anew",
    "CKP002": "the data began anew, and what comes with new data is a consequence",
    "CKP003": "the weights were replaced",
}


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of state lost at a restart.

    The first loss after a restart is of the weights as loaded: if it jumps, they are not those that
    were saved. Lost moments or a counter at 1 show in the first updates: with warm moments they are
    2.24, 1.64, 1.39, 1.25 times as large for betas 0.9, 0.95. A loss that falls is that of data
    seen before. A jump to ln V at a rate that moves nothing means fresh weights, restart or not.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    _weights(p, scale)
    lost = [item for item in evidence.contradictions if item[0].startswith("CKP")]
    if lost:
        code, step = lost[-1]
        scale.add(STRONG + FAIR, f"{code} at step {step}: {MEANING.get(code, 'state was lost')}")
    since = p.from_restart
    if since is None:
        if p.impossible is None and not lost:
            scale.add(-DECISIVE, "no restart is known before the onset")
        return scale.result()
    resumed = p.e.resumed_step
    if since <= 3 * p.every:
        scale.add(STRONG + FAIR, f"it began {since} steps after the restart at step {resumed}")
    elif since <= SOON * p.every:
        scale.add(FAIR, f"it began {since} steps after the restart at step {resumed}")
    else:
        scale.add(-FAIR, f"it began only {since} steps after the restart at step {resumed}")
    for facts in p.out(*UPDATES, "adam_rms"):
        if 0 <= (facts.out_since or 0) - (resumed or 0) <= 3 * p.every:
            ratio = p.ratio(facts)
            text = "" if ratio is None else f" {factor(ratio)}"
            scale.add(
                FAIR,
                f"{facts.name} left its course{text} with the first updates after the restart",
            )
            break
    if p.jump is not None and resumed is not None and abs(p.jump[0] - resumed) <= 2 * p.every:
        scale.add(FAIR, f"the learning rate jumped at the restart (step {p.jump[0]})")
    if p.loss.below is not None and since <= SOON * p.every:
        scale.add(
            FAIR,
            f"the loss fell by {p.loss.below.height:.2g} nats after the restart: data seen before",
        )
    return scale.result()


def _weights(p: Picture, scale: Balance) -> None:
    above = p.loss.above
    if p.impossible is not None:
        scale.add(STRONG, p.impossible + ": the weights were replaced")
        if p.to_uniform or p.e.first_step + 2 >= p.e.onset_step:
            scale.add(STRONG, "it happened with the first update after loading")
    if above is not None and p.to_uniform and p.loss.sudden:
        reached = (p.loss.level or 0.0) + above.peak
        scale.add(
            FAIR,
            f"the loss went to {reached:.4g}, the level of fresh weights (ln V is "
            f"{p.e.uniform:.4g})",
        )
    if p.at_restart and p.loss.sudden and p.loss.step == p.e.resumed_step:
        scale.add(WEAK, "the very first loss after the restart was off: no update had been made")

"""State that a restart lost or mixed up: weights, moments, step counter, schedule, data order."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import DECISIVE, FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "resume-state"
EXPERIMENT = (
    "load the checkpoint and compare with what was saved: weights (and fp32 masters), moments, "
    "Adam's step counter, the schedule's position, the next sample; then resume once more with "
    "each restored by hand"
)
SOON = 60


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of state lost at a restart.

    The first loss after a restart is of the weights as loaded: if it jumps, they are not those that
    were saved. Lost moments or a counter at 1 show in the first updates: with warm moments they are
    2.24, 1.64, 1.39, 1.25 times as large for betas 0.9, 0.95. A jump to ln V at a rate that moves
    nothing means fresh weights, restart or not.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    _weights(p, scale)
    since = p.from_restart
    if since is None:
        if p.impossible is None:
            scale.add(-DECISIVE, "no restart is known before the onset")
        return scale.result()
    resumed, every = p.e.resumed_step, max(1.0, p.e.record_every)
    if since <= 3 * every:
        scale.add(STRONG + WEAK, f"it began {since} steps after the restart at step {resumed}")
    elif since <= SOON * every:
        scale.add(FAIR, f"it began {since} steps after the restart at step {resumed}")
    else:
        scale.add(-FAIR, f"it began only {since} steps after the restart at step {resumed}")
    _updates(p, scale)
    if p.jump is not None and resumed is not None and abs(p.jump[0] - resumed) <= 2 * every:
        scale.add(FAIR, f"the learning rate jumped at the restart (step {p.jump[0]})")
    return scale.result()


def _weights(p: Picture, scale: Balance) -> None:
    if p.impossible is not None:
        scale.add(STRONG, p.impossible + ": the weights were replaced")
        if p.to_uniform or p.e.first_step + 2 >= p.e.onset_step:
            scale.add(STRONG, "it happened with the first update after loading")
    if p.to_uniform and p.sudden:
        uniform = p.e.uniform or 0.0
        reached = (p.level or 0.0) + (p.peak or 0.0)
        scale.add(
            FAIR, f"the loss went to {reached:.4g}, the level of fresh weights (ln V {uniform:.4g})"
        )
    if p.at_restart and p.sudden and p.loss_step == p.e.resumed_step:
        scale.add(FAIR, "the very first loss after the restart was off: no update had been made")


def _updates(p: Picture, scale: Balance) -> None:
    for name in ("update_rms", "update_ratio", "adam_rms"):
        facts = p.scalar(name)
        if facts is None or facts.out_since is None or abs(facts.score) < 1.0:
            continue
        begin = p.e.resumed_step or 0
        if 0 <= facts.out_since - begin <= 3 * max(1.0, p.e.record_every):
            ratio = p.ratio(facts)
            text = "" if ratio is None else f" {factor(ratio)}"
            scale.add(
                FAIR, f"{name} left its course{text} with the first updates after the restart"
            )
            return

"""A stretch of bad data: the loss stands on a raised level, and drops when the stretch ends."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "data-region"
EXPERIMENT = (
    "from the checkpoint before, go on with the samples of these steps left out, and once more "
    "with them at the end of the order: the raised loss must go and come with them"
)
SEVERAL = 4


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a corrupted or foreign region of the data.

    The weights are sound, so the loss is raised from the first record of the region, by about the
    same in each, and falls within one record when the region ends; other text has another loss
    level, gradient norm and log-sum-exp, all from the same record on.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    if not p.stood_out or p.high is None:
        scale.add(-FAIR, "the loss itself never left its course")
        return scale.result()
    if p.sudden or (p.rise is not None and p.rise <= 3):
        scale.add(WEAK, f"the loss rose by {p.peak:.3g} nats within {(p.rise or 0) + 1} records")
    else:
        scale.add(-FAIR, f"the loss took {p.rise} records to rise")
    if p.high >= SEVERAL:
        _plateau(p, scale)
    elif p.back:
        scale.add(-FAIR, f"it was back after {p.high} records")
    _against(p, scale)
    return scale.result()


def _plateau(p: Picture, scale: Balance) -> None:
    flat, cliff = p.flat, p.cliff
    if flat is not None and flat <= 0.25:
        scale.add(FAIR, f"it stood on one raised level for {p.high} records")
    elif flat is not None and flat > 0.5:
        scale.add(-WEAK, f"it did not keep one level while it was raised, {p.high} records")
    if cliff is not None:
        if cliff >= 0.6:
            scale.add(STRONG, f"it ended within one record: {cliff:.0%} of the rise went at once")
        elif cliff < 0.3 and (p.high or 0) >= 8:
            scale.add(-FAIR, "it faded slowly, as weights heal")


def _against(p: Picture, scale: Balance) -> None:
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-STRONG, f"the learning rate jumped at step {p.jump[0]}")
    for name in ("adam_rms", "attention_logit_max", "update_ratio", "grad_norm"):
        facts = p.scalar(name)
        lead = None if facts is None else p.lead(facts)
        if facts is not None and lead is not None and lead > 0 and facts.score >= 1.0:
            scale.add(-FAIR, f"{name} left its course {lead} steps before the loss")
            break
    if p.nonfinite:
        scale.add(-WEAK, f"{p.nonfinite[0].name} was not finite")

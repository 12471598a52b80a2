"""A stretch of bad data: the loss stands on another level, and leaves it when the stretch ends."""

from surefoot.detect.causes._picture import BACKWARD, FORWARD, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "data-region"
EXPERIMENT = (
    "from the checkpoint before, go on with the samples of these steps left out, and once more "
    "with them at the end of the order: the raised loss must go and come with them"
)
SEVERAL = 4
LONG = 8
LASTING = 20
LEAD = 6


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a corrupted or foreign region of the data.

    The weights are sound, so the loss is on another level from the first record of the region, by
    about the same in each, and leaves it within one record when the region ends; other text has
    another gradient norm and log-sum-exp, too, all from the same record on. Repeated or easy text
    lowers the loss.
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    above, below = p.loss.above, p.loss.below
    if above is None and below is None and p.e.code != "SPK004":
        scale.add(-FAIR, "the loss itself kept its course")
    low = below is not None and len(below) >= SEVERAL
    if above is not None and not (low and len(above) < SEVERAL):
        _raised(p, scale, len(above))
    if below is not None and low:
        scale.add(
            FAIR + WEAK,
            f"the loss ran {below.height:.2g} nats low for {len(below)} records: easy text",
        )
    if p.forward_now and p.backward_now:
        scale.add(WEAK, "forward pass and gradient left their course in the same record")
    elif p.backward_now and not p.forward_now and p.of(*FORWARD):
        scale.add(-WEAK, "the gradient left its course with the forward pass as ever")
    _against(p, scale)
    return scale.result()


def _raised(p: Picture, scale: Balance, length: int) -> None:
    assert p.loss.above is not None
    height = p.loss.above.height
    if length < SEVERAL:
        if not p.loss.back:
            return  # too early to tell it from one batch
        scale.add(-FAIR, f"it was back after {length} record{'s' if length != 1 else ''}")
        return
    if p.loss.sudden:
        points = FAIR if length >= LONG and p.loss.remains else WEAK
        steady = p.e.rate_before is not None and p.jump is None and p.from_restart is None
        steady = steady and (p.grown or 1.0) < 1.3
        if length >= LASTING and p.loss.remains and steady and p.of(*FORWARD) and not p.grows:
            points = STRONG
        scale.add(points, f"the loss was up by {height:.3g} nats from the first record on")
    elif p.loss.rise > 3:
        scale.add(-WEAK, f"the loss took {p.loss.rise} records to rise")
    if p.loss.flat:
        scale.add(FAIR, f"it stood on one raised level for {length} records")
    cliff = p.loss.cliff
    if cliff is not None and cliff >= 0.5:
        scale.add(FAIR + WEAK, f"it ended within a record: {cliff:.0%} of the rise went at once")


def _against(p: Picture, scale: Balance) -> None:
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-STRONG, f"the learning rate jumped at step {p.jump[0]}")
    elif p.grown is not None and p.grown >= 1.3 and not p.young:
        scale.add(-FAIR, f"the learning rate was rising: {p.grown:.2g} times in 100 records")
    if p.impossible and p.to_uniform:
        scale.add(-STRONG, "the loss is that of fresh weights, at a rate that moves nothing")
    earlier = p.before(*FORWARD, *BACKWARD)
    if earlier and p.main - (earlier[0].out_since or 0) >= LEAD * p.every:
        steps = p.main - (earlier[0].out_since or 0)
        scale.add(-FAIR, f"{earlier[0].name} left its course {steps} steps before")
    if p.grows is not None:
        scale.add(-STRONG, f"{p.grows.name} grew from record to record, to {p.grows.extreme:.3g}")
    if p.nonfinite:
        scale.add(-WEAK, f"{p.nonfinite[0].name} was not finite")

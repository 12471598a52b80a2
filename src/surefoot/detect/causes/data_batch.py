"""One batch of bad data: the loss jumps in a single record, everywhere at once, and comes back."""

from surefoot.detect.causes._picture import BACKWARD, FORWARD, UPDATES, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "data-batch"
EXPERIMENT = (
    "from the checkpoint before, run the same steps twice: with the same batch, and with that "
    "batch left out; if only the first spikes it was the batch (if neither, hardware)"
)
LASTS = 12


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of one bad batch.

    A batch is seen by the forward pass first: loss and gradient leave their course in the same
    record, in all layers, with nothing before; the weights are as good as ever, so the next losses
    are nearly normal again (Chowdhery et al. 2022, 2204.02311: replaying the batches from another
    state gave no spike, so a batch alone is seldom the whole story in a large run).
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT)
    _shape(p, scale)
    _timing(p, scale)
    share = p.share_out
    if share is not None and p.backward_now:
        if share[0] >= 0.5:
            scale.add(WEAK, f"the gradient stood out in {share[1]} of {share[2]} places")
        elif share[1] == 1:
            scale.add(-WEAK, f"the gradient stood out in 1 of {share[2]} places only")
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-FAIR, f"the learning rate jumped at step {p.jump[0]}")
    if p.impossible and not p.loss.back:
        scale.add(-STRONG, "one batch does not raise the losses after it at such a rate")
    if p.nonfinite:
        scale.add(-WEAK, f"{p.nonfinite[0].name} was not finite")
    if p.e.scale_before and p.e.scale_last and p.e.scale_last < p.e.scale_before / 2:
        scale.add(-WEAK, "the loss scale fell")
    return scale.result()


def _shape(p: Picture, scale: Balance) -> None:
    above, below = p.loss.above, p.loss.below
    if above is not None:
        if p.loss.brief:
            scale.add(
                FAIR + WEAK,
                f"the loss rose by {above.peak:.3g} nats in one record and was back after "
                f"{len(above)}",
            )
        elif len(above) > LASTS:
            scale.add(-STRONG, f"the loss stayed up for {len(above)} records")
        elif len(above) == 1 and not p.loss.back:
            scale.add(WEAK, f"the loss rose by {above.peak:.3g} nats in one record")
        elif not p.loss.sudden:
            scale.add(-FAIR, f"the loss took {p.loss.rise} records to rise")
    if below is not None and len(below) > 4:
        scale.add(-FAIR, f"the loss ran {below.height:.2g} nats low for {len(below)} records")
    if above is None and below is None and p.e.code != "SPK004":
        blip = p.blip
        if blip is not None:
            scale.add(
                FAIR, f"the loss was {blip:+.2g} nats off its course in that record, and back"
            )
        else:
            scale.add(-WEAK, "the loss itself kept its course")


def _timing(p: Picture, scale: Balance) -> None:
    if p.forward_now and p.backward_now:
        scale.add(FAIR, "forward pass and gradient left their course in the same record")
    elif p.backward_now and p.of(*FORWARD):
        scale.add(-WEAK, "the gradient left its course with the forward pass as ever")
    if p.grows is not None:
        scale.add(-STRONG, f"{p.grows.name} grew from record to record, to {p.grows.extreme:.3g}")
    lasting = [
        f
        for f in p.now(*FORWARD, *BACKWARD, *UPDATES)
        if abs(f.extreme_step - (f.out_since or 0)) > 4 * p.every
    ]
    if len(lasting) >= 2:
        scale.add(-FAIR, f"{lasting[0].name} went on moving to step {lasting[0].extreme_step}")
    earlier = p.before(*FORWARD, *BACKWARD, *UPDATES)
    if earlier:
        steps = p.main - (earlier[0].out_since or 0)
        scale.add(-FAIR, f"{earlier[0].name} left its course {steps} steps before")

"""One batch of bad data: the loss jumps in a single record, everywhere at once, and comes back."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "data-batch"
EXPERIMENT = (
    "from the checkpoint before, run the same steps twice: with the same batch, and with that "
    "batch left out; if only the first spikes it was the batch (if neither, hardware)"
)
BRIEF = 3


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
    if share is not None and p.stood_out:
        if share[0] >= 0.5:
            scale.add(WEAK, f"the gradient stood out in {share[1]} of {share[2]} places")
        elif share[0] < 0.15:
            scale.add(-FAIR, f"the gradient stood out in {share[1]} of {share[2]} places only")
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.impossible and not p.back:
        scale.add(-STRONG, "one batch does not raise the losses after it at such a rate")
    if p.nonfinite:
        scale.add(-WEAK, f"{p.nonfinite[0].name} was not finite")
    return scale.result()


def _shape(p: Picture, scale: Balance) -> None:
    if not p.stood_out:
        scale.add(-FAIR, "the loss itself never left its course")
        return
    if p.sudden:
        scale.add(WEAK, f"the loss rose by {p.peak:.3g} nats in one record")
    else:
        scale.add(-FAIR, f"the loss took {p.rise} records to rise")
    if p.back and p.high is not None:
        if p.high <= BRIEF:
            scale.add(FAIR, f"it was back after {p.high} record{'s' if p.high != 1 else ''}")
        elif p.high <= 12:
            scale.add(-WEAK, f"it stayed high for {p.high} records")
        else:
            scale.add(-STRONG, f"it stayed high for {p.high} records")
    elif len(p.excess) > 12:
        scale.add(-STRONG, f"it is not back after {len(p.excess)} records")


def _timing(p: Picture, scale: Balance) -> None:
    grad = p.scalar("grad_norm")
    if grad is not None and grad.out_since is not None and p.loss_step is not None:
        lead = p.lead(grad) or 0
        if lead == 0:
            scale.add(WEAK, "loss and gradient norm left their course in the same record")
        elif lead > 0:
            scale.add(-STRONG, f"the gradient norm left its course {lead} steps before the loss")
    earlier = [
        f
        for name in ("adam_rms", "attention_logit_max", "update_ratio", "update_rms", "log_z")
        for f in p.of(name)
        if (p.lead(f) or 0) > 0 and abs(f.score) >= 1.0
    ]
    if earlier:
        first = min(earlier, key=lambda f: f.out_since or 0)
        scale.add(-STRONG, f"{first.name} left its course {p.lead(first)} steps before the loss")
    if p.jump is not None:
        scale.add(-FAIR, f"the learning rate jumped at step {p.jump[0]}")
    if p.e.scale_before and p.e.scale_last and p.e.scale_last < p.e.scale_before / 2:
        scale.add(-WEAK, "the loss scale fell")

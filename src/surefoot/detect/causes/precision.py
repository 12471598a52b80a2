"""Number formats: a loss scale that falls, gradients that overflow, a range that is too small."""

from surefoot.detect.causes._picture import FORWARD, Picture
from surefoot.detect.causes._weighing import FAIR, STRONG, WEAK, Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "precision"
EXPERIMENT = (
    "from the checkpoint before, run the same steps in bf16 or fp32: if they stay finite and the "
    "loss holds, it was the number format; else replay the batch and find the first tensor that is "
    "not finite"
)
LATE = 20
FELL = 4.0
"""Two halvings: one is what a dynamic loss scale does every thousand steps when all is well."""


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a number format that cannot hold a value.

    fp16 tells of itself: its loss scale halves and updates are skipped, first now and then, then in
    rows (Zhang et al. 2022, 2205.01068, chronicles: the scale ran to its minimum before the loss
    diverged). bf16 and fp8 do not, so without a loss scale little speaks for them.
    """
    p = Picture(evidence)
    e = p.e
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    if e.scale_before and e.scale_last is not None:
        fell = e.scale_before / e.scale_last if e.scale_last > 0.0 else 1e9
        words = f"the loss scale fell from {e.scale_before:.6g} to {e.scale_last:.6g}"
        if fell >= FELL and not p.led_by(*FORWARD):
            scale.add(STRONG + WEAK, words)
        elif fell > 1.0:
            scale.add(FAIR, words)
    for code, step in e.contradictions:
        if code in ("LOG005", "PRC001"):
            scale.add(WEAK, f"{code} at step {step}: updates overflow")
            break
    if e.skipped_updates and e.scale_before and p.forward_finite:
        scale.add(WEAK, "a gradient overflowed and its update was skipped, as fp16 does")
    if e.skipped_updates >= 2:
        scale.add(FAIR, f"{e.skipped_updates} updates were skipped about the onset")
    if p.led_by("loss_scale", "update_skipped"):
        scale.add(STRONG, f"it led: {e.leading_signal} was the first signal out")
    late = [f for f in p.nonfinite if (f.nonfinite_step or 0) > p.main + LATE * p.every]
    if p.nonfinite and len(late) == len(p.nonfinite):
        pass  # what overflows long after the onset is a consequence
    elif p.forward_finite:
        first = p.nonfinite[0]
        scale.add(
            FAIR + WEAK,
            f"{first.name} was not finite at step {first.nonfinite_step} while the loss was: "
            "the forward pass held, the backward pass or the reduction did not",
        )
    elif p.nonfinite:
        first = p.nonfinite[0]
        scale.add(FAIR, f"{first.name} was not finite at step {first.nonfinite_step}")
    elif e.scale_before is None and e.skipped_updates == 0:
        scale.add(-FAIR, "nothing was skipped or not finite, and no loss scale is recorded")
    if p.impossible:
        scale.add(-FAIR, p.impossible)
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    return scale.result()

"""Silent corruption: one value, tensor or reduction is wrong, and nothing else explains it."""

import math

from surefoot.detect.causes._picture import BACKWARD, FORWARD, UPDATES, Picture
from surefoot.detect.causes._weighing import DECISIVE, FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis
from surefoot.records import split_name

CAUSE = "hardware"
EXPERIMENT = (
    "from the checkpoint before, run the same batch twice on this machine and once on another: "
    "bits that differ between runs are the machine's; compare weights and moments across replicas"
)
ABSURD = 100.0
LOUD = 5.0
JUMPED = 0.05


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a bit flip, a lost reduction, or replicas that differ.

    A fault of the machine knows nothing of layers and batches: it hits one tensor, with a magnitude
    that training never makes (an exponent bit is a factor of 2^k), and neither data nor rate go
    with it. A gradient that is exactly zero in some tensors was never reduced (Dixit et al. 2021,
    2102.11245 on silent data corruption).
    """
    p = Picture(evidence)
    scale = Balance(CAUSE, EXPERIMENT, prior=-WEAK)
    if p.e.zero_grad_places:
        places = ", ".join(p.e.zero_grad_places[:3])
        scale.add(
            DECISIVE,
            f"the gradient became exactly 0 in {len(p.e.zero_grad_places)} places ({places})",
        )
    _alone(p, scale)
    _magnitude(p, scale)
    _weights(p, scale)
    _order(p, scale)
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-STRONG, f"the learning rate jumped at step {p.jump[0]}")
    if p.e.scale_before and p.e.scale_last and p.e.scale_last <= p.e.scale_before / 4:
        scale.add(-FAIR, "the loss scale fell, too")
    return scale.result()


def _alone(p: Picture, scale: Balance) -> None:
    """One place alone, loudly, in the first record of it."""
    early = [f for f in p.now(*BACKWARD, *UPDATES, "param_norm") if "@" in f.name]
    names = {split_name(f.name)[1] for f in early}
    counts = [of for _, of in p.e.place_count.values()]
    if len(names) != 1 or not counts or max(counts) < 4:
        return
    ratios = [ratio for ratio in map(p.ratio, early) if ratio is not None and ratio > 0.0]
    worst = max((max(r, 1.0 / r) for r in ratios), default=1.0)
    if worst >= LOUD:
        scale.add(
            STRONG,
            f"it began in one place alone: {next(iter(names))}, of {max(counts)}, "
            f"by {factor(worst)}",
        )


def _magnitude(p: Picture, scale: Balance) -> None:
    loud = []
    for facts in p.now("grad_norm", "adam_rms", "param_norm", *UPDATES):
        ratio = p.ratio(facts)
        if ratio is not None and facts.score > 0.0:
            loud.append((ratio, facts.name))
    if loud and max(loud)[0] >= ABSURD:
        scale.add(FAIR + WEAK, f"{max(loud)[1]} was {factor(max(loud)[0])} its course at once")


def _weights(p: Picture, scale: Balance) -> None:
    """Weights that changed by more than their update can have made."""
    for facts in p.now("param_norm"):
        at = facts.at_onset if math.isfinite(facts.at_onset) else facts.extreme
        grown = at / facts.before - 1.0 if facts.before > 0.0 else 0.0
        if abs(grown) >= JUMPED:
            scale.add(STRONG + WEAK, f"{facts.name} jumped by {grown:+.1%} in one record")
            return
    broken = [f for f in p.nonfinite if split_name(f.name)[0] == "param_norm"]
    if broken:
        scale.add(
            STRONG, f"{broken[0].name} was not finite at step {broken[0].nonfinite_step}: weights"
        )


def _order(p: Picture, scale: Balance) -> None:
    if p.impossible:
        scale.add(FAIR, p.impossible)
    if p.forward_finite and p.e.scale_before is None:
        scale.add(
            STRONG + WEAK,
            f"{p.nonfinite[0].name} was not finite from a finite forward pass, with no loss scale",
        )
    elif p.nonfinite and p.e.scale_before is None and not p.out(*FORWARD, *BACKWARD, *UPDATES):
        scale.add(FAIR + WEAK, "values were not finite at once, with nothing before")
    share = p.share_out
    if p.now("grad_norm") and not p.forward_now and p.of(*FORWARD) and share is not None:
        if share[0] <= 0.25:
            scale.add(
                FAIR,
                f"the gradient jumped in {share[1]} of {share[2]} places, the forward pass was "
                "as ever",
            )
    elif p.now(*UPDATES) and not p.backward_now and not p.forward_now and p.jump is None:
        scale.add(FAIR, "the update was off with gradient and forward pass as ever: a moment")
    if p.loss.above is not None and p.loss.sudden and p.loss.fades and not p.at_restart:
        scale.add(WEAK, "the loss rose in one record and faded slowly: the weights changed")
    if p.loss.brief:
        scale.add(-WEAK, "the loss was back at once: the weights are sound")

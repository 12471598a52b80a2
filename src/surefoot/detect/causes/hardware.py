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
BEYOND = 1e4
"""The same where many places have it at once, as after a change of the data."""
LOUD = 5.0
ALONE = 4.0
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
    """One place that stands out far beyond every other."""
    loudest: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for facts in p.out("grad_norm", *UPDATES, "param_norm"):
        place = split_name(facts.name)[1]
        if place is not None:
            loudest[place] = max(loudest.get(place, 0.0), abs(facts.score))
            ratio = p.ratio(facts)
            if ratio is not None and ratio > 0.0:
                ratios[place] = max(ratios.get(place, 1.0), ratio, 1.0 / ratio)
    places = max((of for _, of in p.e.place_count.values()), default=0)
    if not loudest or places < 4:
        return
    first, *rest = sorted(loudest, key=lambda place: -loudest[place])
    others = loudest[rest[0]] if rest else 1.0
    by = ratios.get(first, 1.0)
    if by >= LOUD and loudest[first] >= ALONE * others:
        scale.add(
            STRONG, f"one place of {places} stands out far beyond the others: {first}, {factor(by)}"
        )


def _magnitude(p: Picture, scale: Balance) -> None:
    loud = []
    for facts in p.now("grad_norm", "adam_rms", "param_norm", *UPDATES):
        ratio = p.ratio(facts)
        at_once = facts.extreme_step - (facts.out_since or 0) <= p.every
        if ratio is not None and facts.score > 0.0 and at_once:
            loud.append((ratio, facts.name))
    places = {split_name(f.name)[1] for f in p.now(*BACKWARD, *UPDATES)} - {None}
    total = max((of for _, of in p.e.place_count.values()), default=0)
    many = total >= 4 and len(places) > 0.34 * total
    if loud and max(loud)[0] >= (BEYOND if many else ABSURD):
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
            STRONG,
            f"{p.nonfinite[0].name} was not finite from a finite forward pass, with no loss scale",
        )
    elif p.nonfinite and p.e.scale_before is None and not p.out(*FORWARD, *BACKWARD, *UPDATES):
        scale.add(FAIR + WEAK, "values were not finite at once, with nothing before")
    share = p.share_out
    if p.now("grad_norm") and not p.forward_now and p.of(*FORWARD) and share is not None:
        if share[1] >= 1 and share[0] <= 0.25:
            scale.add(
                FAIR,
                f"the gradient jumped in {share[1]} of {share[2]} places, the forward pass was "
                "as ever",
            )
    elif p.now(*UPDATES) and not p.backward_now and not p.forward_now and p.jump is None:
        scale.add(FAIR, "the update was off with gradient and forward pass as ever: a moment")
    calm = not p.at_restart and p.grows is None
    if p.loss.above is not None and p.loss.sudden and p.loss.fades and calm:
        scale.add(WEAK, "the loss rose in one record and faded slowly: the weights changed")
    if p.loss.brief:
        scale.add(-WEAK, "the loss was back at once: the weights are sound")

"""Silent corruption: one value, tensor or reduction is wrong, and nothing else explains it."""

import math

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import DECISIVE, FAIR, STRONG, WEAK, Balance, factor
from surefoot.detect.evidence import Evidence, Hypothesis, SignalFacts
from surefoot.records import split_name

CAUSE = "hardware"
EXPERIMENT = (
    "from the checkpoint before, run the same batch twice on this machine and once on another: "
    "bits that differ between runs are the machine's; compare weights and moments across replicas"
)
ABSURD = 1000.0
LOUD = 5.0


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
    _places(p, scale)
    _magnitude(p, scale)
    _shape(p, scale)
    if p.at_restart:
        scale.add(-FAIR, "it began at a restart")
    if p.jump is not None:
        scale.add(-STRONG, f"the learning rate jumped at step {p.jump[0]}")
    if p.e.scale_before and p.e.scale_last and p.e.scale_last <= p.e.scale_before / 4:
        scale.add(-FAIR, "the loss scale fell, too")
    return scale.result()


def _places(p: Picture, scale: Balance) -> None:
    """One place alone in the first record of it."""
    onset = p.e.onset_interval[1]
    early = [
        f
        for f in p.e.places.values()
        if f.out_since is not None and f.out_since <= onset and abs(f.score) >= 1.0
    ]
    names = {split_name(f.name)[1] for f in early}
    counts = [of for _, of in p.e.place_count.values()]
    if len(names) != 1 or not counts or max(counts) < 4:
        return
    ratios = [ratio for ratio in map(p.ratio, early) if ratio is not None and ratio > 0.0]
    worst = max((max(r, 1.0 / r) for r in ratios), default=1.0)
    where = f"it began in one place alone: {next(iter(names))}, of {max(counts)}"
    if worst >= LOUD:
        scale.add(STRONG, f"{where}, by {factor(worst)}")
    elif max(abs(f.score) for f in early) >= 2.0:
        scale.add(WEAK, where)


def _magnitude(p: Picture, scale: Balance) -> None:
    known = [*p.e.scalars.values(), *p.e.places.values()]
    norms = ("param_norm", "grad_norm", "update_rms", "update_ratio", "adam_rms")
    worst: tuple[float, SignalFacts] | None = None
    for facts in known:
        if split_name(facts.name)[0] not in norms or facts.score < 1.0:
            continue
        ratio = p.ratio(facts)
        if ratio is not None and (worst is None or ratio > worst[0]):
            worst = ratio, facts
    if worst is not None and worst[0] >= ABSURD and worst[1].out_since == worst[1].extreme_step:
        scale.add(
            FAIR, f"{worst[1].name} was {factor(worst[0])} its course in the first record of it"
        )
    weights = [f for f in p.of("param_norm") if f.score >= 1.0 and f.out_since is not None]
    for facts in weights:
        at = facts.at_onset if math.isfinite(facts.at_onset) else facts.extreme
        if facts.before > 0.0 and at / facts.before >= 1.05 and facts.out_since == p.e.onset_step:
            scale.add(
                STRONG,
                f"{facts.name} jumped by {at / facts.before - 1.0:.1%} in one record",
            )
            break


def _shape(p: Picture, scale: Balance) -> None:
    if p.impossible:
        scale.add(FAIR, p.impossible)
    grad = p.scalar("grad_norm")
    if (
        grad is not None
        and grad.out_since is not None
        and grad.score >= 1.0
        and grad.extreme_step == grad.out_since
    ):
        lead = p.lead(grad)
        if lead is None:
            scale.add(FAIR, "the gradient norm jumped for one record, the loss did not")
    if p.sudden and not p.back and len(p.excess) > 12 and not p.at_restart:
        scale.add(
            WEAK, "the loss rose in one record and stayed: the weights, not the batch, changed"
        )
    if p.sudden and p.back and (p.high or 0) <= 3:
        scale.add(-WEAK, f"the loss was back after {p.high} records: the weights are sound")

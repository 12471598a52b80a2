"""What a measurement costs, and why less than the whole model was built, in words."""

from surefoot.errors import UsageError
from surefoot.probe.profile import Sizes
from surefoot.probe.reduce import (
    FLOPS,
    LEAST_LENGTH,
    RATE,
    WHOLE,
    Plan,
    expert_parameters,
    flops,
    memory_needed,
    parameters,
    with_sizes,
)
from surefoot.recipe.words import size

_TOO_LONG = 100
"""Times :data:`FLOPS` that are refused."""


def require_possible(chosen: Plan, full: Sizes, memory: int | None) -> None:
    """Refuse what even narrow needs too much of, and say which part of it does.

    Args:
        chosen: the least that would be built.
        full: the model as asked for.
        memory: bytes of the machine; None = not known.

    Raises:
        UsageError: with what helps.
    """
    what = f"even {chosen.sizes.width} wide and on {chosen.length} tokens"
    needed = memory_needed(chosen)
    if memory is not None and needed > memory // 2:
        raise UsageError(
            f"{what} this needs {size(needed)}, and the machine has {size(memory)} of memory: "
            f"{_cure(chosen, full, needed)}"
        )
    if flops(chosen) > _TOO_LONG * FLOPS:
        shorter = "give fewer with --sequence-length, or " if _may_be_shorter(chosen) else ""
        raise UsageError(
            f"{what} this takes {flops(chosen):.1g} operations: {shorter}take fewer layers"
        )


def _cure(chosen: Plan, full: Sizes, needed: int) -> str:
    """What takes the memory, and whether it can be less."""
    s = chosen.sizes
    weights, experts = parameters(s), expert_parameters(s)
    if 8 * weights < needed / 2 and _may_be_shorter(chosen):
        return "give fewer tokens with --sequence-length, or a smaller model"
    if experts > weights / 2:
        built = "" if s.experts == full.experts else f" (of {full.experts})"
        return (
            f"most of it is {s.experts} experts{built} in each of {s.layers} layers, and fewer "
            "tokens would not help; write a copy with fewer layers"
        )
    if 2 * s.vocab_size * s.width > weights / 2:
        return f"most of it is the vocabulary of {s.vocab_size:,}; write a copy with a smaller one"
    return f"most of it is {s.layers} layers; write a copy with fewer"


def _may_be_shorter(chosen: Plan) -> bool:
    return chosen.length > LEAST_LENGTH


def words(full: Sizes, chosen: Plan, length: int, alike: bool = True) -> list[str]:
    """What was built and fed, and why not all of it, a sentence each.

    Args:
        full: the model as asked for.
        chosen: what was built.
        length: tokens of a training sequence.
        alike: whether a router's weights sum to 1.
    """
    built = chosen.sizes
    said = []
    if built.width != full.width:
        said.append(
            f"built {built.width} wide instead of {full.width} (r = {full.width / built.width:g}; "
            f"heads {built.heads} of {full.heads}, kv heads {built.kv_heads} of {full.kv_heads}, "
            f"feed-forward {built.ff_width} of {full.ff_width}) {_why(full, chosen)}: the "
            "standard deviation of every matrix x sqrt(r), but the embedding's; bounds are those "
            "of full width"
        )
    if built.experts != full.experts:
        added = (
            ""
            if alike
            else ", but what they add comes out larger, as this router's weights do not sum to 1 "
            "over those that are chosen"
        )
        said.append(
            f"built {built.experts} of {full.experts} experts in a layer, of which a token passes "
            f"{full.experts_per_token} as in the whole: they are alike at the start, and bounds do "
            f"not depend on it{added}"
        )
    fed = "1 sequence" if chosen.sequences == 1 else f"{chosen.sequences} sequences"
    short = f" (there are positions for {length})" if chosen.length < length else ""
    some = "" if chosen.rows >= full.vocab_size else f"; softmax over {chosen.rows} of the rows"
    said.append(
        f"fed {fed} of {chosen.length} tokens{short}, drawn independently by Zipf's law{some}"
    )
    return said


def _why(full: Sizes, chosen: Plan) -> str:
    whole = flops(with_sizes(chosen, full))
    if whole <= WHOLE * FLOPS:
        return "to stay within half of the memory"
    return (
        f"to stay within {duration(WHOLE * FLOPS / RATE)} (the whole would take about "
        f"{duration(whole / RATE)} of one core)"
    )


def duration(seconds: float) -> str:
    """``10 seconds``, ``12 minutes``, ``3 hours``."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"

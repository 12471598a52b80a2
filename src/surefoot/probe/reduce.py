"""How small a model is built in the place of a large one, and what that changes.

Width d is divided by r: fewer heads of the same size, feed-forward and key/value heads in
proportion. Depth, sequence length, vocabulary and the embedding's standard deviation stay; every
other matrix gets its full-width standard deviation times sqrt(r). Then a sum over d/r channels has
the variance it had over d: what enters and leaves each sub-layer keeps its RMS, and a Jacobian its
mean effect on a gradient, which falls with sqrt(d) std for each matrix. Keeping the standard
deviations instead makes every sub-layer weaker by r and hides the growth of gradients.

Of many experts, which are alike at the start, some are built; each token still passes as many.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from surefoot.probe.profile import Sizes

FLOPS = 3.5e11
"""Floating-point operations of a measurement, forward and backward: seconds on two cores."""
WHOLE = 2.5
"""Times as many may be spent where the model is not made narrower for it."""
RATE = 9e10
"""Such operations in a second of one core, about."""
DRAWN = 1.5e8
"""Parameters of routed experts that are drawn where fewer would do: seconds."""
ROWS = 8192
"""Rows of the vocabulary over which a softmax is made, where there are more."""
LOGITS = 2**25
"""Logits at most, unless the tokens that are fed need more."""
LEAST_TOKENS = 1024
"""Tokens that are fed at least, so that averages are averages."""
LEAST_WIDTH = 128
"""Below it a random matrix is no longer like a large one."""
LEAST_LENGTH = 128
"""To which a sequence length that nobody stated may be halved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is built and fed.

    Attributes:
        sizes: of the model that is built.
        length: tokens of a sequence.
        sequences: how many.
        rows: of the vocabulary over which the softmax is made.
    """

    sizes: Sizes
    length: int
    sequences: int
    rows: int


def plan(
    sizes: Sizes,
    length: int,
    *,
    fixed_length: bool,
    memory: int | None,
    alike: bool = True,
) -> Plan:
    """The largest model that can be measured within :data:`FLOPS` and half of the memory.

    Args:
        sizes: of the model.
        length: tokens of a sequence.
        fixed_length: whether that many must be fed; else it is halved where the narrowest model
            would still take too long.
        memory: bytes of the machine; None = not known.
        alike: whether fewer experts give what all would, as where a router's weights sum to 1; else
            fewer are built only where memory asks for it.
    """
    narrower = [reduced(sizes, heads) for heads in _heads(sizes)]
    while True:
        for option in narrower:
            budget = FLOPS * (WHOLE if option.width == sizes.width else 1)
            for fewer in _experts(option, alike):
                found = _fed(fewer, length)
                if flops(found) <= budget and _fits(found, memory):
                    return found
        if fixed_length or length // 2 < LEAST_LENGTH:
            *_, least = _experts(narrower[-1], alike)
            return _fed(least, length)
        length //= 2


def with_sizes(found: Plan, sizes: Sizes) -> Plan:
    """The same tokens through a model of other sizes."""
    return replace(found, sizes=sizes)


def reduced(sizes: Sizes, heads: int) -> Sizes:
    """The model with so many heads of the same size, everything else in proportion."""
    if heads == sizes.heads:
        return sizes
    share = heads / sizes.heads
    kv_heads = max(1, round(sizes.kv_heads * share))
    while heads % kv_heads:
        kv_heads -= 1
    return replace(
        sizes,
        width=sizes.width * heads // sizes.heads,
        heads=heads,
        kv_heads=kv_heads,
        ff_width=max(1, round(sizes.ff_width * share)),
    )


def flops(plan: Plan) -> float:
    """Operations of one forward and backward pass, multiplications and additions."""
    s = plan.sizes
    tokens = plan.length * plan.sequences
    matrices = _attention(s) + s.experts_per_token * _feed_forward(s)
    scores = plan.length * s.heads * s.head_size  # half of 2 products of 2 operations: causal
    blocks = s.layers * tokens * (6 * matrices + 7 * scores)
    return float(blocks + 6 * tokens * plan.rows * s.width)


def parameters(sizes: Sizes) -> int:
    """Matrices of the model, an untied head included."""
    block = _attention(sizes) + sizes.experts * _feed_forward(sizes)
    return sizes.layers * block + 2 * sizes.vocab_size * sizes.width


def expert_parameters(sizes: Sizes) -> int:
    """Of them, those of routed experts; 0 of a dense model."""
    return sizes.layers * sizes.experts * _feed_forward(sizes) if sizes.experts > 1 else 0


def _attention(s: Sizes) -> int:
    return 2 * s.width * s.head_size * (s.heads + s.kv_heads)


def _feed_forward(s: Sizes) -> int:
    return s.ff_matrices * s.width * s.ff_width


def _heads(sizes: Sizes) -> list[int]:
    """Numbers of heads that leave a width in whole channels, falling."""
    whole = [heads for heads in range(sizes.heads, 0, -1) if sizes.width * heads % sizes.heads == 0]
    wide = [heads for heads in whole if sizes.width * heads // sizes.heads >= LEAST_WIDTH]
    return wide or whole[:1]


def _experts(sizes: Sizes, alike: bool) -> Iterator[Sizes]:
    """The model with all its experts, or as many as can soon be drawn, and fewer.

    Twice as many as a token passes are left, so that tokens still differ in theirs.
    """
    least = 2 * sizes.experts_per_token
    while True:
        over = alike and expert_parameters(sizes) > DRAWN and sizes.experts // 2 >= least
        if not over:
            yield sizes
        if sizes.experts // 2 < least or sizes.experts == 1:
            return
        sizes = replace(sizes, experts=sizes.experts // 2)


def _fed(sizes: Sizes, length: int) -> Plan:
    sequences = max(1, LEAST_TOKENS // length)
    rows = min(sizes.vocab_size, max(ROWS, 2 * length * sequences))
    return Plan(
        sizes=sizes,
        length=length,
        sequences=sequences,
        rows=max(1, min(rows, LOGITS // (length * sequences))),
    )


def memory_needed(plan: Plan) -> int:
    """Bytes: weights and gradients, activations of a token in fp32, logits."""
    s = plan.sizes
    tokens = plan.length * plan.sequences
    activations = 4 * tokens * s.layers * (12 * s.width + 4 * s.experts_per_token * s.ff_width)
    return 8 * parameters(s) + activations + 12 * tokens * plan.rows


def _fits(plan: Plan, memory: int | None) -> bool:
    return memory is None or memory_needed(plan) <= memory // 2

"""What is measured of a model before its first step: plain numbers, without torch."""

from collections.abc import Mapping
from dataclasses import dataclass

NORMS_OF_THE_SUM = ("post", "b2t", "deepnorm")
"""Placements that normalise shortcut and sub-layer together."""

# Of a stream or an activation, "RMS" is the root of the mean square over tokens and channels.


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile:
    """One block at its start; None is what could not be measured or does not apply.

    Attributes:
        layer: number, from 0.
        stream_rms: RMS of the residual stream that enters the block.
        attention_rms: RMS of what attention adds to the stream.
        feed_forward_rms: RMS of what the feed-forward block adds.
        stream_gradient: L2 norm of the loss's gradient with respect to that stream.
        parameter_gradient: L2 norm of the gradient of the block's parameters.
        attention_sigma: standard deviation of what the norm before attention reads.
        feed_forward_sigma: the same of the norm before the feed-forward block.
        attention_bound: Spike No More's upper bound of ||dx'/dx||; pre-norm only.
        feed_forward_bound: the same of ||dy/dx'||.
        logit_std: standard deviation of the attention logits.
        logit_max: largest attention logit by magnitude.
        entropy: attention entropy over that of uniform attention, 0 to 1.
        entropy_min: of the head where it is least.
    """

    layer: int
    stream_rms: float
    attention_rms: float
    feed_forward_rms: float
    stream_gradient: float
    parameter_gradient: float
    attention_sigma: float | None = None
    feed_forward_sigma: float | None = None
    attention_bound: float | None = None
    feed_forward_bound: float | None = None
    logit_std: float | None = None
    logit_max: float | None = None
    entropy: float | None = None
    entropy_min: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """A table of embeddings or positions, and how far the optimizer can carry it.

    Attributes:
        name: of the parameter.
        role: ``embedding`` or ``position``.
        rows: of the table.
        rms: of its elements, at full width.
        gradient: RMS of an element's gradient in a step in which its row occurs once.
        reach: farthest that Adam can carry an element over the run, all steps in one direction,
            over ``rms``; None where rate and steps are not stated.
        warmup_reach: the same over the warm-up.
    """

    name: str
    role: str
    rows: int
    rms: float
    gradient: float
    reach: float | None = None
    warmup_reach: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryProfile:
    """How far rotary positions reach.

    Attributes:
        theta: base of the frequencies.
        head_size: channels of a head that are turned.
        longest: tokens in which the slowest pair turns once.
        share_beyond: share of the pairs that do not turn once in a training sequence.
    """

    theta: float
    head_size: int
    longest: float
    share_beyond: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The shape of a model as far as reductions concern it.

    Attributes:
        layers: blocks.
        width: channels of the residual stream.
        heads: query heads.
        kv_heads: key/value heads.
        head_size: channels of a head.
        ff_width: inner channels of the feed-forward block.
        ff_matrices: matrices of the feed-forward block; 3 where it is gated.
        vocab_size: rows of the embedding.
        experts: feed-forward experts of a layer; 1 = dense.
        experts_per_token: of them, those that a token passes.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ff_width: int
    ff_matrices: int
    vocab_size: int
    experts: int = 1
    experts_per_token: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProfile:
    """A model before its first step.

    Attributes:
        target: what was looked at, as given.
        kind: ``recipe`` or ``config.json``.
        model: what was built.
        method: ``init.method`` of a recipe; "" of a config.json.
        placement: where the norms are, as ``norm_placement`` of a recipe.
        sizes: the model's shape.
        measured_width: width of the model that was built; less than ``sizes.width`` if reduced.
        measured_heads: query heads of it.
        sequence_length: tokens of a training sequence, as far as known.
        measured_length: tokens of a sequence that were fed.
        sequences: how many were fed.
        rows: of the vocabulary over which the softmax was made.
        loss: mean cross-entropy at the start, nats.
        loss_error: its standard error.
        ln_vocab: log of the vocabulary, the loss of a uniform guess.
        logit_std: standard deviation of the output logits over the vocabulary.
        stream_rms: RMS of the stream behind the last block.
        stream_gradient: L2 norm of the gradient with respect to it.
        layers: every block.
        tables: embeddings and positions.
        rotary: rotary positions; None = there are none.
        notes: what was done on the way and what was not used, a sentence each.
        measured_experts: routed experts of a layer that were built; ``sizes`` has all.
    """

    target: str
    kind: str
    model: str
    method: str
    placement: str
    sizes: Sizes
    measured_width: int
    measured_heads: int
    sequence_length: int
    measured_length: int
    sequences: int
    rows: int
    loss: float
    loss_error: float
    ln_vocab: float
    logit_std: float
    stream_rms: float
    stream_gradient: float
    layers: tuple[LayerProfile, ...]
    tables: tuple[TableProfile, ...] = ()
    rotary: RotaryProfile | None = None
    notes: tuple[str, ...] = ()
    measured_experts: int = 1

    @property
    def reduction(self) -> float:
        """By how much the width was reduced; 1 = not at all."""
        return self.sizes.width / self.measured_width

    @property
    def lowest(self) -> int:
        """The layer from whose input on growth is counted: 0, or 1 with norms of the sum.

        Those give the stream the RMS of 1 behind the first block; before it, it is the embedding,
        whose size has no part in what the layers do to a gradient.
        """
        return int(self.placement in NORMS_OF_THE_SUM and len(self.layers) > 1)

    @property
    def gradient_growth(self) -> float:
        """Gradient norm at the input of the lowest block over that behind the last block.

        Above 1 it grows toward the lower layers (Takase et al. 2023, 2312.16903), below 1 it
        vanishes.
        """
        return _ratio(self.layers[self.lowest].stream_gradient, self.stream_gradient)

    @property
    def stream_growth(self) -> float:
        """RMS of the stream behind the last block over that before the lowest."""
        return _ratio(self.stream_rms, self.layers[self.lowest].stream_rms)

    @property
    def added_rms(self) -> float:
        """RMS of all that the sub-layers add to the stream, as if it were independent."""
        total = sum(x.attention_rms**2 + x.feed_forward_rms**2 for x in self.layers)
        return float(total**0.5)

    def growth_exponents(self) -> Mapping[str, float]:
        """OLMo 2's growth exponents, log(last / first) / layers; near 0 is wanted.

        Of the ``activation`` going up, and of the ``gradient`` going down.
        """
        return {
            "activation": _log(self.stream_growth) / (len(self.layers) - self.lowest),
            "gradient": _log(self.gradient_growth) / (len(self.layers) - self.lowest),
        }


def _ratio(above: float, below: float) -> float:
    return above / below if below else float("nan")


def _log(value: float) -> float:
    from math import inf, log

    if value != value or value == inf:
        return value
    return log(value) if value > 0 else -inf

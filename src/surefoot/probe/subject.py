"""A model that can be measured: where its blocks, sub-layers and norms are, and how it is run."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.probe.profile import Sizes

# B sequences, T positions, R rows of the vocabulary, C = width, V = vocabulary.

Run = Callable[[Tensor, Tensor], Tensor]
"""(B, T) tokens and (R,) rows of the vocabulary, ascending, to their logits (B, T, R)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubLayers:
    """The modules of one block whose outputs or inputs are looked at.

    Attributes:
        block: the whole.
        attention: what attends.
        attention_added: whose output is added to the stream: attention, or a norm behind it.
        feed_forward_added: the same of the feed-forward block.
        attention_norm: the norm that attention reads through; None = none.
        feed_forward_norm: the same of the feed-forward block.
    """

    block: nn.Module
    attention: nn.Module
    attention_added: nn.Module
    feed_forward_added: nn.Module
    attention_norm: nn.Module | None
    feed_forward_norm: nn.Module | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model that was built with random weights.

    Attributes:
        model: it, in evaluation mode (no dropout).
        run: forward pass.
        roles: parameter name to role, of :data:`surefoot.init.ROLES`.
        sub_layers: of each block.
        placement: of the norms, as ``norm_placement`` of a recipe.
        sizes: of this model.
        input_factor: what the embedding's output is multiplied by.
        tied: whether the head is the embedding.
        gradient_share: share of the gradient that reaches the embedding.
        activation: of the feed-forward block, as :func:`surefoot.probe.bounds.slope` has it.
    """

    model: nn.Module
    run: Run
    roles: Mapping[str, str]
    sub_layers: tuple[SubLayers, ...]
    placement: str
    sizes: Sizes
    input_factor: float
    tied: bool
    gradient_share: float
    activation: str


Build = Callable[[Sizes], Subject]
"""A model of these sizes, its weights drawn as its own initialisation says for them."""


def wider_logits(logits: Tensor, own: Tensor, reduction: float) -> Tensor:
    """What the logits of a head tied to the embedding would be at full width.

    The embedding keeps its standard deviation, so a logit, a sum over the width, is too small: one
    with a random direction by sqrt(r), that of the token just read, along whose embedding the
    stream still lies, by r.

    Args:
        logits: (B, T, R).
        own: (B, T) int64, places in R of the tokens just read.
        reduction: r, full width over this width.
    """
    root = math.sqrt(reduction)
    logits = logits * root
    at_own = logits.gather(-1, own[..., None])
    return logits.scatter(-1, own[..., None], at_own * root)


def places(tokens: Tensor, rows: Tensor) -> Tensor:
    """Where each token stands among ascending rows that hold them all, int64."""
    return torch.searchsorted(rows, tokens.contiguous())


@contextmanager
def head_rows(holder: nn.Module, name: str, weight: Tensor, rows: Tensor) -> Iterator[None]:
    """Within it, a model's head is a linear layer with these rows of a matrix (V, C)."""
    before = getattr(holder, name)
    head = nn.Linear(weight.shape[1], len(rows), bias=False)
    head.weight = nn.Parameter(weight.detach()[rows])
    setattr(holder, name, head)
    try:
        yield
    finally:
        setattr(holder, name, before)


@torch.no_grad()
def standard_deviations(model: nn.Module, roles: Mapping[str, str]) -> dict[str, float]:
    """Root mean square of all weights of a role, over the whole model."""
    sums: dict[str, list[float]] = {}
    for name, parameter in model.named_parameters():
        if parameter.ndim >= 2:
            total = sums.setdefault(roles[name], [0.0, 0.0])
            total[0] += float(torch.linalg.vector_norm(parameter.float())) ** 2
            total[1] += parameter.numel()
    return {role: math.sqrt(square / count) for role, (square, count) in sums.items()}

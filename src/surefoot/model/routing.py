"""Which experts a token is sent to, with what weight, and how well the load is spread."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

# N tokens, E experts, k experts of each token.


class RouterSums(NamedTuple):
    """What routers tell of a forward pass: 0-d tensors of one layer, or those of all layers.

    Over all layers (:func:`stack_router_sums`) the two losses are means over the layers, 0-d, and
    the rest are vectors (layers,). All are fp32 at least, on the device, and of the tokens of one
    forward pass on one rank; a token whose logits are NaN makes the means NaN.

    Attributes:
        balance_loss: experts times the sum over the experts of (share of the assignments, share of
            the probability); 1 at an even load. Differentiable through the probability. Source:
            Fedus et al. 2021, 2101.03961.
        router_z: mean over the tokens of the squared log-sum-exp of the logits, nats².
            Differentiable. Source: Zoph et al. 2022, 2202.08906.
        entropy: of the probabilities over the experts, mean over the tokens, nats; ln(experts) if
            the router is undecided. Detached, like all that follow.
        logit_max: largest absolute logit.
        load_max: assignments to the busiest expert over its even share, before any is dropped; 1 is
            even, experts / k is the worst.
        dropped: share of the assignments beyond the capacity of their expert.
    """

    balance_loss: Tensor
    router_z: Tensor
    entropy: Tensor
    logit_max: Tensor
    load_max: Tensor
    dropped: Tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> "RouterSums":
        # Of a model that has run: a copy belongs to no graph, which torch refuses to copy.
        return RouterSums(*(value.detach().clone() for value in self))


class Routing(NamedTuple):
    """Assignments of tokens to experts, in the order in which the experts read them.

    Attributes:
        weights: (N, k), of each token over its experts, summing to 1; differentiable.
        order: (N k,) int64, assignments (token · k + choice) expert by expert, those of an expert
            in the order of the tokens.
        place: (N k,) int64, where each assignment stands in ``order``: its inverse.
        counts: (E,) int64, assignments to each expert.
        limit: assignments that an expert takes, the first ones; None = all.
        sums: what is told of it.
    """

    weights: Tensor
    order: Tensor
    place: Tensor
    counts: Tensor
    limit: int | None
    sums: RouterSums


def route(logits: Tensor, per_token: int, capacity: float | None = None) -> Routing:
    """Send each token to the experts of its largest logits.

    Weights are the softmax over the chosen experts, which is the softmax over all of them
    renormalised over the chosen (Jiang et al. 2024, 2401.04088). With one expert a token the weight
    is therefore 1, and the loss of the model gives the router no gradient. Of equal logits the
    expert of the lower number is taken, on every device. The choice of a token depends on its own
    logits alone. What the capacity drops depends on the tokens before it, never on those behind: in
    a decoder an expert that took its first choices first would let later tokens displace earlier.

    Args:
        logits: (N, E), fp32 or fp64.
        per_token: k, at most E.
        capacity: what an expert takes over its even share N k / E, rounded up; the rest is dropped,
            and its weight with it. None = no limit.
    """
    tokens, experts = logits.shape
    assignments = tokens * per_token
    # A stable sort, since topk leaves open which of equal logits it takes. NaN counts as largest.
    chosen = torch.sort(logits.detach(), dim=-1, descending=True, stable=True).indices
    chosen = chosen[:, :per_token]
    weights = torch.softmax(logits.gather(1, chosen), dim=-1)
    flat = chosen.reshape(-1)
    order = torch.argsort(flat, stable=True)
    place = torch.empty_like(order).scatter_(
        0, order, torch.arange(assignments, device=flat.device)
    )
    # Not bincount, which on a GPU adds in no fixed order and waits for the largest value.
    counts = (flat[:, None] == torch.arange(experts, device=flat.device)).sum(0)
    limit = None if capacity is None else _limit(capacity, assignments, experts)
    return Routing(weights, order, place, counts, limit, _sums(logits, counts, assignments, limit))


def stack_router_sums(layers: Sequence[RouterSums]) -> RouterSums | None:
    """The sums of all layers from those of each; None if there are none."""
    if not layers:
        return None
    balance, z, *told = (torch.stack(values) for values in zip(*layers, strict=True))
    return RouterSums(balance.mean(), z.mean(), *told)


def _sums(logits: Tensor, counts: Tensor, assignments: int, limit: int | None) -> RouterSums:
    experts = logits.shape[1]
    log_z = torch.logsumexp(logits, dim=-1)
    log_p = logits - log_z[:, None]
    p = log_p.exp()
    shares = counts.to(p.dtype) / assignments
    with torch.no_grad():
        entropy = -(torch.where(p > 0, log_p, 0 * p) * p).sum(-1).mean()
        over = 0 * counts if limit is None else (counts - limit).clamp_min(0)
        dropped = over.sum().to(p.dtype) / assignments
        logit_max = logits.detach().abs().amax()
    return RouterSums(
        balance_loss=experts * (shares * p.mean(0)).sum(),
        router_z=log_z.square().mean(),
        entropy=entropy,
        logit_max=logit_max,
        load_max=shares.amax() * experts,
        dropped=dropped,
    )


def _limit(capacity: float, assignments: int, experts: int) -> int:
    """Rounded up exactly: 1.1 · 30 / 3 is 11, though not in binary floating point."""
    exact = Fraction(repr(capacity)) * assignments / experts
    return -(-exact.numerator // exact.denominator)

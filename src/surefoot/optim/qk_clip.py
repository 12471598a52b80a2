"""QK-clip: query and key weights of a head are scaled down when its attention logits grow large."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.utils import parametrize

from surefoot.errors import UsageError

_NAMES = (("wq", "wk", "head_size"), ("q_proj", "k_proj", "head_dim"))
"""How attention modules call their query and key matrices and the size of a head: surefoot's
decoder, and most of transformers."""

_NORMS = ("q_norm", "k_norm", "qk_norm", "q_layernorm", "k_layernorm")
"""What they call QK-norm."""


class QueryKey(NamedTuple):
    """The query and key matrices of one attention layer; H heads, K key/value heads, D head size.

    Attributes:
        query: (H D, C), head by head.
        key: (K D, C) likewise; query heads h K/H ... are served by key head h // (H/K).
        heads: H.
        kv_heads: K, a divisor of H.
        head_size: D.
        query_bias: (H D,), if there is one.
        key_bias: (K D,), if there is one.
    """

    query: Tensor
    key: Tensor
    heads: int
    kv_heads: int
    head_size: int
    query_bias: Tensor | None = None
    key_bias: Tensor | None = None


@torch.no_grad()
def qk_clip_(
    pairs: Sequence[QueryKey],
    head_max: Tensor,
    threshold: float,
    *,
    alpha: float = 0.5,
    skip: Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Scale the weights so that logits as large as those measured come down to ``threshold``.

    After the update, for each head with largest logit S::

        gamma = min(1, threshold / S)
        W_q  *= gamma ^ alpha
        W_k  *= gamma ^ (1 - alpha)

    Query heads that share a key head (GQA) are scaled alike, by the smallest gamma among them, so
    that none of their logits exceeds the threshold. A head within the threshold stays bit-equal; so
    does one whose maximum is NaN or infinite, which says that the step failed, not by how much to
    scale. Nothing waits for the host.

    It acts on what was measured: for the same inputs of a layer its logits come out multiplied by
    gamma. With maxima of a part of the batch, or of weights before their update, or where clipping
    an earlier layer moves the inputs of a later one, logits may lie above the threshold by as much
    as those differ, until the next step. Moments of the
    optimizer are left as they are. Where the weights have a second copy (fp32 master, bf16 to
    compute with), call it with the pairs of both.

    Source: Kimi K2 (Moonshot AI 2025, 2507.20534), threshold 100; sharing among grouped heads as in
    Megatron.

    Args:
        pairs: one a layer, in the order of ``head_max``.
        head_max: largest attention logit of each head in the forward pass of this step, after the
            factor 1/sqrt(D), (layers, H) fp32.
        threshold: tau, the largest logit that is left alone.
        alpha: share of the scaling that the query takes, within [0, 1].
        skip: 0-d; above 0 = the update was left out, so scale nothing either. None = it was made.
        group: ranks over which the maxima are reduced first; None = those of this process alone.
            The default group is ``torch.distributed.group.WORLD``.

    Returns:
        The factor on the logits of each head, (layers, H) fp32; 1 = untouched.

    Raises:
        UsageError: if threshold, alpha or shapes cannot be meant.
    """
    if not threshold > 0:
        raise UsageError(f"a QK-clip threshold of {threshold}: use a positive one, as 100")
    if not 0 <= alpha <= 1:
        raise UsageError(f"a QK-clip alpha of {alpha}: use a share within [0, 1], as 0.5")
    shapes = {(pair.heads, pair.kv_heads) for pair in pairs}
    if len(shapes) != 1 or head_max.shape != (len(pairs), next(iter(shapes))[0]):
        raise UsageError(
            f"QK-clip got maxima of shape {tuple(head_max.shape)} for {len(pairs)} layers of "
            f"{sorted({pair.heads for pair in pairs})} heads: give one a layer and head"
        )
    heads, kv_heads = shapes.pop()
    largest = head_max.detach().float()
    largest = torch.where(largest.isfinite(), largest, torch.inf)  # NaN has no place in an order
    if group is not None:
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    over = largest.isfinite() & (largest > threshold)
    if skip is not None:
        over = over & ~(skip > 0)
    gamma = torch.where(over, threshold / largest, 1.0)  # layers H
    gamma = gamma.view(len(pairs), kv_heads, -1).amin(-1)  # layers K
    for pair, factor in zip(pairs, gamma.unbind(), strict=True):
        by_query = factor.pow(alpha).repeat_interleave(heads // kv_heads)
        _scale_heads(pair.query, by_query)
        _scale_heads(pair.key, factor.pow(1 - alpha))
        if pair.query_bias is not None:
            _scale_heads(pair.query_bias, by_query)
        if pair.key_bias is not None:
            _scale_heads(pair.key_bias, factor.pow(1 - alpha))
    return gamma.repeat_interleave(heads // kv_heads, dim=1)


def query_key_pairs(model: nn.Module) -> list[QueryKey]:
    """The query and key matrices of a model, layer by layer.

    Known are attention modules with linear layers ``wq`` and ``wk`` and a ``head_size``, as those
    of surefoot's decoder, or ``q_proj``, ``k_proj`` and ``head_dim``, as most in transformers.

    Raises:
        UsageError: if there is none, or one where scaling the weights does not scale the logits:
            behind QK-norm, or with re-parameterised weights.
    """
    pairs = []
    for name, module in model.named_modules():
        for query_name, key_name, size_name in _NAMES:
            query, key = getattr(module, query_name, None), getattr(module, key_name, None)
            size = getattr(module, size_name, None)
            if isinstance(query, nn.Linear) and isinstance(key, nn.Linear) and size:
                _refuse_without_effect(name, module, query, key)
                pairs.append(
                    QueryKey(
                        query=query.weight,
                        key=key.weight,
                        heads=query.out_features // size,
                        kv_heads=key.out_features // size,
                        head_size=size,
                        query_bias=query.bias,
                        key_bias=key.bias,
                    )
                )
    if not pairs:
        raise UsageError(
            f"QK-clip found no attention in {type(model).__name__}: it looks for linear layers "
            "called wq, wk with a head_size, or q_proj, k_proj with a head_dim; for others make "
            "the QueryKey pairs yourself"
        )
    return pairs


def _refuse_without_effect(name: str, module: nn.Module, query: nn.Linear, key: nn.Linear) -> None:
    if any(getattr(module, norm, None) is not None for norm in _NORMS):
        raise UsageError(
            f"QK-clip has no effect on {name}: its QK-norm takes any factor on the query and key "
            "weights out again, and bounds the logits itself; leave architecture.qk_clip out, or "
            "set architecture.qk_norm = false"
        )
    if parametrize.is_parametrized(query) or parametrize.is_parametrized(key):
        raise UsageError(
            f"QK-clip cannot scale the heads of {name}: its weights are re-parameterised, so that "
            "they are computed anew from others; leave architecture.qk_clip or the "
            "re-parameterisation out"
        )


def _scale_heads(weight: Tensor, factors: Tensor) -> None:
    """Multiply the rows of each head by its factor, in place."""
    rows = weight.view(len(factors), -1)
    rows.mul_(factors[:, None])

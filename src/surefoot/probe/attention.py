"""Attention logits and entropies of any model, seen from outside.

A model's attention is one of torch's functions: the fused ``scaled_dot_product_attention``, or a
softmax where a model writes it out. Both pass by here while a sub-layer attends.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# B sequences, H heads, R query rows, T keys, D = head size.

ROWS = 64
"""Query positions that are looked at, evenly spaced."""
_HIDDEN = -1e30
"""A logit below it is that of a key that may not be seen."""
_SOFTMAXES = (torch.softmax, Tensor.softmax, F.softmax)


class Attentions:
    """Sums over the heads and rows seen of one layer."""

    def __init__(self) -> None:
        self.count = 0.0
        self.total = 0.0
        self.squares = 0.0
        self.largest = 0.0
        self.entropies: Tensor | None = None
        self.rows = 0

    @torch.no_grad()
    def add(self, logits: Tensor) -> None:
        """Take in logits (..., R, T), -inf where a key may not be seen; heads in front.

        The entropy of a row is divided by the log of the number of keys it sees, that of uniform
        attention; rows that see one key have none and are left out.
        """
        logits = logits.detach().float()
        logits = logits.reshape(logits.shape[0], -1, *logits.shape[-2:])  # B H R T
        seen = ~(logits <= _HIDDEN)  # NaN is seen
        keys = seen.sum(-1)  # B H R
        rows = keys > 1
        values = torch.where(seen, logits, 0.0)
        self.count += float(seen.sum())
        self.total += float(values.double().sum())
        self.squares += float(values.double().square().sum())
        # maximum lets NaN through, max of Python would lose it.
        self.largest = float(torch.maximum(values.abs().amax(), torch.tensor(self.largest)))
        log_p = torch.log_softmax(torch.where(seen, logits, -torch.inf), dim=-1)
        entropy = -torch.where(seen, log_p.exp() * log_p, 0.0).sum(-1)
        share = torch.where(rows, entropy / keys.clamp(min=2).log(), 0.0).double()
        by_head = share.sum(dim=(0, 2))
        self.entropies = by_head if self.entropies is None else self.entropies + by_head
        self.rows += int(rows[:, 0].sum())

    @property
    def logit_std(self) -> float | None:
        """Standard deviation of the logits."""
        if not self.count:
            return None
        mean = self.total / self.count
        variance = self.squares / self.count - mean**2
        return math.sqrt(max(variance, 0.0)) if variance == variance else math.nan

    @property
    def by_head(self) -> Tensor | None:
        """Mean share of the entropy of each head, (H,)."""
        return None if self.entropies is None or not self.rows else self.entropies / self.rows


class Watch(TorchFunctionMode):
    """Within it, the attention of the current layer is added up.

    Attributes:
        layer: index of the layer that attends; None = none does.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.found = [Attentions() for _ in range(layers)]
        self.layer: int | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.layer is not None:
            layer, self.layer = self.layer, None  # what happens in here is not looked at
            try:
                if func is F.scaled_dot_product_attention:
                    self.found[layer].add(rows_of_logits(*args, **kwargs))
                elif func in _SOFTMAXES and args and args[0].ndim >= 4:
                    self.found[layer].add(some_rows(args[0]))
            finally:
                self.layer = layer
        return func(*args, **kwargs)


@torch.no_grad()
def rows_of_logits(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Logits (B, H, R, T) of at most :data:`ROWS` rows; the arguments of torch's function.

    Args:
        query: (B, H, T, D).
        key: (B, K, T, D), K dividing H.
        value: not looked at.
        attn_mask: what each query may see, or what is added.
        dropout_p: not looked at.
        is_causal: whether a query sees keys up to its own place only.
        scale: factor of q·k; None = 1/sqrt(D).
        enable_gqa: not looked at, the shapes tell.
    """
    length = query.shape[-2]
    rows = torch.arange(length - 1, -1, -max(1, length // ROWS), device=query.device).flip(0)
    groups = query.shape[1] // key.shape[1]
    keys = key.float().repeat_interleave(groups, dim=1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    logits = query[..., rows, :].float() @ keys.transpose(-1, -2) * factor
    if is_causal:
        ahead = torch.arange(key.shape[-2], device=query.device) > rows[:, None]
        logits = logits.masked_fill(ahead, -torch.inf)
    if attn_mask is not None:
        mask = attn_mask if attn_mask.shape[-2] == 1 else attn_mask[..., rows, :]
        if mask.dtype == torch.bool:
            logits = logits.masked_fill(~mask, -torch.inf)
        else:
            logits = logits + mask
    return logits


def some_rows(logits: Tensor) -> Tensor:
    """Evenly spaced rows of written-out logits (B, ..., R, T), the last one among them."""
    step = max(1, logits.shape[-1] // ROWS)
    return logits.flip(-2)[..., ::step, :]

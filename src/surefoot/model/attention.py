"""Causal grouped-query attention, and the measurement of its largest logit."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.model.norms import RMSNorm
from surefoot.model.rope import rotate
from surefoot.recipe import Architecture

# B sequences, T positions, C = width, H query heads, K key/value heads, D = head size.

_MEASURED_ROWS = 128
"""Query positions whose logits are held at once by the measurement; bounds its memory."""


class Attention(nn.Module):
    """Causal self-attention with rotary positions and optional QK-norm.

    Sources: grouped queries, Ainslie et al. 2023, 2305.13245; QK-norm, Henry et al. 2020,
    2010.04245.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        self.head_size = a.head_size
        inner, inner_kv = a.heads * a.head_size, a.key_value_heads * a.head_size
        self.wq = nn.Linear(a.width, inner, bias=False)
        self.wk = nn.Linear(a.width, inner_kv, bias=False)
        self.wv = nn.Linear(a.width, inner_kv, bias=False)
        self.wo = nn.Linear(inner, a.width, bias=False)
        self.q_norm = RMSNorm(a.head_size, a.norm_eps) if a.qk_norm else None
        self.k_norm = RMSNorm(a.head_size, a.norm_eps) if a.qk_norm else None
        self.grouped = a.key_value_heads != a.heads

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, measured: list[Tensor] | None, sequences: int
    ) -> Tensor:
        """(B, T, C) -> (B, T, C).

        Args:
            x: the normalised residual stream.
            cos: table of :func:`surefoot.model.rope.rope_tables`, (T, D/2).
            sin: likewise.
            measured: where to append the largest logit of the first ``sequences`` sequences;
                None = not measured, at no cost.
            sequences: how many sequences are measured.
        """
        heads = (*x.shape[:-1], -1, self.head_size)
        q = self.wq(x).view(heads)  # B T H D
        k = self.wk(x).view(heads)  # B T K D
        v = self.wv(x).view(heads)  # B T K D
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)  # B H T D, B K T D twice
        if measured is not None:
            measured.append(largest_logit(q[:sequences], k[:sequences]))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        output: Tensor = self.wo(y.transpose(1, 2).flatten(-2))
        return output


@torch.no_grad()
def largest_logit(q: Tensor, k: Tensor) -> Tensor:
    """The largest |q·k / sqrt(D)| over the causal part, fp32, 0-d, on the device.

    Args:
        q: queries after norm and rotation, (B, H, T, D).
        k: keys likewise, (B, K, T, D) with K dividing H.
    """
    with torch.autocast(q.device.type, enabled=False):
        length, size = q.shape[-2:]
        groups = q.float().reshape(q.shape[0], k.shape[1], -1, length, size)  # B K H/K T D
        keys = k.float().unsqueeze(2).transpose(-1, -2)  # B K 1 D T
        largest = []
        for start in range(0, length, _MEASURED_ROWS):
            stop = min(start + _MEASURED_ROWS, length)
            logits = torch.matmul(groups[..., start:stop, :], keys[..., :stop])
            # Row start+i may look at the keys up to start+i.
            largest.append(logits.tril_(start).abs_().amax())
        return torch.stack(largest).amax() / math.sqrt(size)

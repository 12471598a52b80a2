"""Causal grouped-query attention, and the measurement of its largest logits."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.model.norms import RMSNorm
from surefoot.model.rope import rotate
from surefoot.model.softmax import softmax_attention
from surefoot.recipe import Architecture

# B sequences, T positions, C = width, H query heads, K key/value heads, D = head size.

_MEASURED_ROWS = 128
"""Query positions whose logits are held at once by the measurement; bounds its memory."""


class Attention(nn.Module):
    """Causal self-attention with rotary positions and optional QK-norm, by head or over all heads.

    Sources: grouped queries, Ainslie et al. 2023, 2305.13245; QK-norm, Henry et al. 2020,
    2010.04245; over all heads, OLMo 2, 2501.00656.

    Args:
        architecture: shape and switches.
        number: of the layer, from 1; for query-key layer scaling.
    """

    def __init__(self, architecture: Architecture, number: int = 1) -> None:
        super().__init__()
        a = architecture
        self.head_size = a.head_size
        inner, inner_kv = a.heads * a.head_size, a.key_value_heads * a.head_size
        self.wq = nn.Linear(a.width, inner, bias=False)
        self.wk = nn.Linear(a.width, inner_kv, bias=False)
        self.wv = nn.Linear(a.width, inner_kv, bias=False)
        self.wo = nn.Linear(inner, a.width, bias=False)
        self.norm_by_head = a.qk_norm_over == "head"
        sizes = (a.head_size, a.head_size) if self.norm_by_head else (inner, inner_kv)
        self.q_norm = RMSNorm(sizes[0], a.norm_eps) if a.qk_norm else None
        self.k_norm = RMSNorm(sizes[1], a.norm_eps) if a.qk_norm else None
        self.grouped = a.key_value_heads != a.heads
        # None where it is the kernel's own factor, also where a recipe states that as a number.
        self.scale = None if a.logit_factor == 1 / math.sqrt(a.head_size) else a.logit_factor
        self.softcap = a.attention_softcap
        self.layer_number = number if a.query_key_layer_scaling else 1
        self.fused = a.attention_softcap is None and not a.query_key_layer_scaling

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, measured: list[Tensor] | None, sequences: int
    ) -> Tensor:
        """(B, T, C) -> (B, T, C).

        Args:
            x: what attention reads.
            cos: table of :func:`surefoot.model.rope.rope_tables`, (T, D/2).
            sin: likewise.
            measured: where to append the largest logit of each head, (H,), of the first
                ``sequences`` sequences; None = not measured, at no cost.
            sequences: how many sequences are measured.
        """
        heads = (*x.shape[:-1], -1, self.head_size)
        q, k = self.wq(x), self.wk(x)
        v = self.wv(x).view(heads)  # B T K D
        if self.q_norm is not None and self.k_norm is not None:
            if self.norm_by_head:
                q, k = q.view(heads), k.view(heads)
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q.view(heads), cos, sin), rotate(k.view(heads), cos, sin)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)  # B H T D, B K T D twice
        rounded, k = q.to(v.dtype), k.to(v.dtype)
        if measured is not None:
            measured.append(largest_logit(rounded[:sequences], k[:sequences], self.scale))
        if self.fused:
            y = F.scaled_dot_product_attention(
                rounded, k, v, is_causal=True, scale=self.scale, enable_gqa=self.grouped
            )
        else:
            scale = 1 / math.sqrt(self.head_size) if self.scale is None else self.scale
            y = softmax_attention(
                q, k, v, scale=scale, cap=self.softcap, layer_number=self.layer_number
            )
        output: Tensor = self.wo(y.transpose(1, 2).flatten(-2))
        return output


@torch.no_grad()
def largest_logit(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """The largest |scale q·k| of each head over the causal part, (H,), fp32, on the device.

    It is the logit before any soft cap, which hides its growth and does not stop it.

    Args:
        q: queries after norm and rotation, (B, H, T, D).
        k: keys likewise, (B, K, T, D) with K dividing H.
        scale: factor of q·k; None = 1/sqrt(D).
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
            largest.append(logits.tril_(start).abs_().amax(dim=(0, 3, 4)).flatten())
        by_head = torch.stack(largest).amax(dim=0)
        return by_head / math.sqrt(size) if scale is None else by_head * scale

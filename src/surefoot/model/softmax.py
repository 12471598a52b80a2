"""Causal attention of plain operations with an fp32 softmax, for what the fused kernel has not.

The fused kernel cannot cap its logits, nor multiply them back after a product kept small. This one
can, at the cost of memory: where gradients are wanted, a few fp32 numbers are held for each head
and each pair of positions. They are made by blocks of rows, each up to its diagonal.
"""

import torch
from torch import Tensor

# B sequences, T positions, H query heads, K key/value heads, D = head size.

_ROWS = 128
"""Query positions of a block."""


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    cap: float | None = None,
    layer_number: int = 1,
) -> Tensor:
    """softmax(cap · tanh(scale q·k / cap)) v over the positions up to each, (B, H, T, D).

    The factor of the logits, divided by ``layer_number``, goes into the queries before they are
    rounded to the dtype of ``v``, in which the product is made; the logits are then made fp32 and
    multiplied by ``layer_number`` (query-key layer scaling). So in fp16 the product overflows only
    beyond 65504 · layer_number; in exact arithmetic the number has no effect.

    Args:
        q: queries after norm and rotation, (B, H, T, D), best not yet rounded.
        k: keys likewise, (B, K, T, D) with K dividing H.
        v: values, (B, K, T, D); their dtype is that of the two products and of the result.
        scale: factor of q·k.
        cap: largest absolute logit; None = no cap.
        layer_number: of the block, from 1; 1 = no layer scaling.

    Sources: soft cap, Gemma 2, 2408.00118; layer scaling, Megatron-LM
    (``apply_query_key_layer_scaling``).
    """
    exact = torch.promote_types(v.dtype, torch.float32)
    batch, _, length, size = q.shape
    q = (q * (scale / layer_number)).to(v.dtype)
    q = q.reshape(batch, k.shape[1], -1, length, size)  # B K H/K T D
    keys = k.to(v.dtype).transpose(-1, -2)  # B K D T
    positions = torch.arange(length, device=q.device)
    rows = []
    for start in range(0, length, _ROWS):
        stop = min(start + _ROWS, length)
        block = q[..., start:stop, :]  # B K H/K R D
        product = torch.matmul(block.flatten(2, 3), keys[..., :stop])
        logits = product.view(*block.shape[:-1], stop).to(exact)
        if layer_number != 1:
            logits = logits * layer_number
        if cap is not None:
            logits = cap * torch.tanh(logits / cap)
        ahead = positions[:stop] > positions[start:stop, None]
        shares = torch.softmax(logits.masked_fill(ahead, -torch.inf), dim=-1).to(v.dtype)
        read = torch.matmul(shares.flatten(2, 3), v[..., :stop, :])
        rows.append(read.view(block.shape))
    return torch.cat(rows, dim=-2).flatten(1, 2)

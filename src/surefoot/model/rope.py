"""Rotary position embedding in the rotate-half layout of the transformers library.

Channel i of a head is paired with channel i + head_size/2, so that weights need no permutation on
export. Tables are computed anew each forward pass, in fp32: they cost next to nothing, and no
buffer can be converted to bf16 with the model, broadcast by DDP or left empty after ``to_empty``.

Source: Su et al. 2021, 2104.09864.
"""

import torch
from torch import Tensor

from surefoot.recipe.rope import longest_wavelength, share_beyond

__all__ = ["longest_wavelength", "rope_tables", "rotate", "share_beyond"]


def rope_tables(
    length: int, head_size: int, theta: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of positions 0 .. length-1, each (length, head_size/2), fp32.

    Args:
        length: positions.
        head_size: channels of a head, even.
        theta: base of the frequencies theta^(-2i/head_size).
        device: where the tables are made.
    """
    exponents = torch.arange(0, head_size, 2, device=device, dtype=torch.float32) / head_size
    positions = torch.arange(length, device=device, dtype=torch.float32)
    angles = positions[:, None] * (1.0 / theta**exponents)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + head_size/2) of x (B, T, H, head_size) by its position's angle.

    Computed in fp32 at least; the result has that dtype.
    """
    cos, sin = cos[:, None], sin[:, None]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

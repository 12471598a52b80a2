"""Clipping by the global gradient norm, as a factor that the fused update takes in."""

import torch
from torch import Tensor


def clip_factor(norm: Tensor, clip: float) -> Tensor:
    """The factor by which clipping multiplies the gradient: min(1, clip / (norm + 1e-6)).

    The same as ``torch.nn.utils.clip_grad_norm_``. Where the norm is NaN or infinite the factor is
    1: such a gradient stays as it is, visibly unusable (a factor 0 would make zeros of its finite
    part), and the update is to be skipped by ``found_inf``.

    Args:
        norm: global L2 norm of the unscaled gradient, 0-d.
        clip: the largest norm; 0 = no clipping.

    Returns:
        0-d, in (0, 1], on the device of ``norm``.
    """
    if clip == 0:
        return torch.ones_like(norm)
    factor = (clip / (norm + 1e-6)).clamp(max=1.0)
    return torch.where(norm.isfinite(), factor, 1.0)

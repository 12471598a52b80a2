"""Normalisation of the residual stream, queries and keys: RMSNorm and LayerNorm, no biases."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.recipe import Architecture


class RMSNorm(nn.Module):
    """y = w · x / sqrt(mean(x²) + eps) over the last dimension.

    Computed in the dtype of the weight (fp32 under autocast), in which the result is returned.

    Args:
        width: size of the last dimension.
        eps: added to the mean square.

    Source: Zhang and Sennrich 2019, 1910.07467.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        x = x.to(self.weight.dtype)
        if x.is_cpu and not torch.compiler.is_compiling():
            # On the CPU torch composes rms_norm of plain operations: three times as slow.
            y: Tensor = _RMSNorm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
            return y
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Width and eps."""
        return f"{self.weight.numel()}, eps={self.eps}"


class LayerNorm(nn.Module):
    """y = w · (x - mean) / sqrt(var + eps) over the last dimension, without a bias.

    Computed in the dtype of the weight (fp32 under autocast), in which the result is returned.

    Args:
        width: size of the last dimension.
        eps: added to the variance.

    Source: Ba et al. 2016, 1607.06450.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        x = x.to(self.weight.dtype)
        return F.layer_norm(x, self.weight.shape, self.weight, None, self.eps)

    def extra_repr(self) -> str:
        """Width and eps."""
        return f"{self.weight.numel()}, eps={self.eps}"


def make_norm(architecture: Architecture) -> nn.Module:
    """A norm over the width, of the kind that the architecture names."""
    kind = RMSNorm if architecture.norm == "rmsnorm" else LayerNorm
    return kind(architecture.width, architecture.norm_eps)


class _RMSNorm(torch.autograd.Function):
    """RMSNorm in few passes over memory, keeping only its input for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return (x * _inverse_rms(x, eps)).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        # The inverse RMS is computed anew, not saved, so that second derivatives are right too.
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):  # backward may be called within autocast
            inverse = _inverse_rms(x, ctx.eps)
            normal = x * inverse
            product = grad * normal
            mean = torch.matmul(product, weight[:, None]) / x.shape[-1]
            grad_x = (grad * weight).addcmul_(normal, mean, value=-1).mul_(inverse)
            return grad_x, product.reshape(-1, x.shape[-1]).sum(0), None


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    """(..., width) -> (..., 1)."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.rsqrt(norm.square() / x.shape[-1] + eps)

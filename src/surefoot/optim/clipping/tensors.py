"""Norms of many gradients, and factors on them: what the methods that look at each tensor share."""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn


def measuring_type(parameters: Sequence[nn.Parameter]) -> torch.dtype:
    """What norms are measured in: float32, or float64 if a parameter is."""
    return reduce(torch.promote_types, (p.dtype for p in parameters), torch.float32)


def gradient_norms(parameters: Sequence[nn.Parameter], dtype: torch.dtype) -> Tensor:
    """L2 norm of each gradient, (P,) of ``dtype``; 0 for a parameter that has none."""
    norms = list(torch.zeros(len(parameters), dtype=dtype, device=parameters[0].device).unbind())
    present = [(i, p.grad) for i, p in enumerate(parameters) if p.grad is not None]
    if present:
        measured = torch._foreach_norm([gradient for _, gradient in present], 2, dtype=dtype)
        for (index, _), norm in zip(present, measured, strict=True):
            norms[index] = norm
    return torch.stack(norms)


def scale_gradients(parameters: Sequence[nn.Parameter], factors: Tensor) -> None:
    """Multiply each gradient in place by its factor, (P,).

    Elsewhere than on a CPU every gradient is multiplied, mostly by 1: to know which ones need not
    be, the host would have to wait. On a CPU the answer is there, and saves a pass over memory.
    """
    if reads_are_free(factors):
        for p, factor in zip(parameters, factors.tolist(), strict=True):
            if p.grad is not None and factor != 1:
                p.grad.mul_(factor)
        return
    pairs = [
        (p.grad, f) for p, f in zip(parameters, factors.unbind(), strict=True) if p.grad is not None
    ]
    if pairs:
        torch._foreach_mul_([g for g, _ in pairs], [f for _, f in pairs])


def reads_are_free(tensor: Tensor) -> bool:
    """Whether the host sees values without waiting for a device."""
    return tensor.device.type == "cpu"

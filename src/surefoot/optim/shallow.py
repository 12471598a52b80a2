"""A factor on the gradients of the first blocks."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError

_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")


@torch.no_grad()
def scale_shallow_gradients(
    model: nn.Module | Iterable[tuple[str, Tensor]], factor: float, layers: int
) -> None:
    """Multiply the gradients of the first blocks in place.

    Call it after backward and before the norm is measured. Under Adam a constant factor changes
    next to nothing: the update does not depend on the scale of gradients, but for eps, for a
    global clip (whose norm and factor change), and for about 1/(1 - beta2) steps after the factor
    is changed. GLM-130B (Zeng et al. 2022, 2210.02414) did the like to its embedding.

    Args:
        model: a module, or pairs of name and parameter. The number of a parameter's block is the
            first in its name: ``layers.0.``, ``transformer.h.0.``; names without a number, such as
            an embedding's, are left alone.
        factor: at least 0; 1 = nothing is done.
        layers: blocks, from number 0; 0 = nothing is done.

    Raises:
        UsageError: if no name has a number, or ``factor`` is not a number of at least 0.
    """
    if not 0 <= factor < float("inf"):
        raise UsageError(f"factor = {factor}: expected a number of at least 0")
    if factor == 1 or layers <= 0:
        return
    named = list(model.named_parameters() if isinstance(model, nn.Module) else model)
    numbers = [_NUMBER.search(name) for name, _ in named]
    if not any(numbers):
        raise UsageError(
            "no parameter name has a block number, as in layers.0.attention.wq.weight: which "
            "gradients are shallow cannot be told"
        )
    gradients = [
        parameter.grad
        for (_, parameter), number in zip(named, numbers, strict=True)
        if number and int(number[1]) < layers and parameter.grad is not None
    ]
    if gradients:
        torch._foreach_mul_(gradients, factor)

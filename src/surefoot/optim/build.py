"""The optimizer of a recipe, by its name."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from surefoot.optim.groups import parameter_groups
from surefoot.recipe import Optimizer
from surefoot.registry import Registry

OPTIMIZERS: Registry[Callable[[list[dict[str, Any]], Optimizer], torch.optim.Optimizer]] = Registry(
    "optimizer"
)
"""By recipe name: (groups of :func:`parameter_groups`, section of the recipe) -> optimizer."""

FUSED_DEVICES = ("cpu", "cuda")
"""Where torch's fused AdamW is used; elsewhere its foreach path."""


def build_optimizer(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rate_factors: Mapping[str, float] | None = None,
    roles: Mapping[str, str] | None = None,
) -> torch.optim.Optimizer:
    """The optimizer that ``optimizer.name`` says, over the groups of :func:`parameter_groups`.

    Args:
        model: any module, already on its device.
        optimizer: rates and moments.
        rate_factors: by parameter name, what its learning rate is multiplied by (muP); 1 for those
            that are not named. It stays in ``group["rate_factor"]``: whoever sets a group's
            rate multiplies by it.
        roles: by parameter name; without, embeddings and matrices of blocks are recognised by
            module and name.

    Raises:
        UsageError: if the model has no trainable parameter, ``rate_factors`` or ``roles`` name one
            that it does not have, or muon finds no matrix of a block.
    """
    groups = parameter_groups(model, optimizer, rate_factors=rate_factors, roles=roles)
    return OPTIMIZERS.lookup(optimizer.name)(groups, optimizer)


@OPTIMIZERS.register("adamw")
def _adamw(groups: list[dict[str, Any]], optimizer: Optimizer) -> torch.optim.AdamW:
    """Torch's AdamW (Loshchilov and Hutter 2017, 1711.05101), fused where torch can."""
    devices = {parameter.device.type for group in groups for parameter in group["params"]}
    fused = devices <= set(FUSED_DEVICES)
    return torch.optim.AdamW(
        groups,
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        fused=fused,
        foreach=not fused,
    )

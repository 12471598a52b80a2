"""Parameter groups by what decays, and AdamW over them."""

from typing import Any

import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.recipe import Optimizer

FUSED_DEVICES = ("cpu", "cuda")
"""Where torch's fused AdamW is used; elsewhere its foreach path."""


def parameter_groups(model: nn.Module, optimizer: Optimizer) -> list[dict[str, Any]]:
    """The trainable parameters in up to three groups, named in ``group["name"]``.

    ``matrices`` decay. ``vectors`` (norm gains, biases: fewer than two dimensions) do not.
    ``embeddings`` (weights of ``nn.Embedding``, also where a head is tied to them) do not unless
    ``optimizer.decay_embeddings``: shrinking ones enlarge the gradients of the first blocks
    (OLMo 2, 2501.00656).

    Args:
        model: any module; a shared parameter appears once.
        optimizer: weight decay and whether embeddings decay.

    Raises:
        UsageError: if the model has no trainable parameter.
    """
    embeddings = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
    }
    groups: dict[str, list[nn.Parameter]] = {"matrices": [], "embeddings": [], "vectors": []}
    for parameter in model.parameters():
        if parameter.requires_grad:
            if id(parameter) in embeddings:
                name = "embeddings"
            else:
                name = "matrices" if parameter.ndim >= 2 else "vectors"
            groups[name].append(parameter)
    if not any(groups.values()):
        raise UsageError("the model has no parameter with requires_grad: nothing to optimise")
    decay = {
        "matrices": optimizer.weight_decay,
        "embeddings": optimizer.weight_decay if optimizer.decay_embeddings else 0.0,
        "vectors": 0.0,
    }
    return [
        {"name": name, "params": parameters, "weight_decay": decay[name]}
        for name, parameters in groups.items()
        if parameters
    ]


def build_optimizer(model: nn.Module, optimizer: Optimizer) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2017, 1711.05101), fused where torch can.

    Args:
        model: any module, already on its device.
        optimizer: rates and moments; ``learning_rate`` is the first rate of every group.

    Raises:
        UsageError: if the model has no trainable parameter.
    """
    groups = parameter_groups(model, optimizer)
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

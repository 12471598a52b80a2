"""Draw every parameter from a generator of its own, with the spread that its role asks for."""

import hashlib
import math
from collections.abc import Mapping

import torch
from torch import nn

from surefoot.errors import UsageError, nearest
from surefoot.recipe import Init

ROLES = {
    "embedding": "input embedding, also where the head is tied to it",
    "attention_in": "query, key and value matrices",
    "attention_out": "output matrix of attention, written to the residual stream",
    "feed_forward_in": "gate and up matrices",
    "feed_forward_out": "down matrix, written to the residual stream",
    "head": "output matrix onto the vocabulary",
    "norm": "gain of a normalisation: 1",
    "bias": "offset of a layer or a normalisation: 0",
}


def standard_deviation(role: str, init: Init, *, width: int, layers: int) -> float:
    """Standard deviation of the weights of a role, one of :data:`ROLES` that is drawn.

    Embeddings of standard deviation near 1 keep the shortcut large, outputs divided by
    sqrt(2 layers) keep the sub-layers small: the two conditions under which gradients do not grow
    towards the first blocks (Takase et al. 2023, 2312.16903). ``small`` is sqrt(2/(5 width))
    (Nguyen and Salazar 2019, 1910.05895).
    """
    stds = init.standard_deviations(width)
    if stds is None:
        raise UsageError(f"init.method = {init.method!r} has no standard deviation by role")
    std, embedding_std, depth_scaled = stds
    if role == "embedding":
        return embedding_std
    if role in ("attention_out", "feed_forward_out") and depth_scaled:
        return std / math.sqrt(2 * layers)
    return std


@torch.no_grad()
def initialise(
    model: nn.Module,
    roles: Mapping[str, str],
    init: Init,
    *,
    width: int,
    layers: int,
    seed: int,
) -> None:
    """Set every parameter in place.

    Each tensor is drawn on the CPU in fp32 from a generator seeded by ``seed`` and its name, so
    that the values depend on neither device, dtype, order of the parameters nor the other layers.

    Args:
        model: any module; a parameter shared by two names is set once, under its first name.
        roles: parameter name to role, for every parameter.
        init: standard deviations.
        width: channels of the residual stream.
        layers: blocks, for the output matrices.
        seed: of the whole model.

    Raises:
        UsageError: if a parameter has no role, a role is unknown, or a name is no parameter; the
            model is untouched then.
    """
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if name not in roles:
            raise UsageError(
                f"parameter {name!r} of shape {tuple(parameter.shape)} has no role: add it to "
                f"`roles` as one of {', '.join(ROLES)}"
            )
    for name, role in roles.items():
        if name not in parameters:
            hint = nearest(name, list(parameters))
            raise UsageError(f"roles names {name!r}, which is no parameter of the model{hint}")
        if role not in ROLES:
            hint = nearest(role, list(ROLES))
            raise UsageError(
                f"unknown role {role!r} of parameter {name!r}{hint}; known: {', '.join(ROLES)}"
            )
    for name, parameter in parameters.items():
        role = roles[name]
        if role in ("norm", "bias"):
            parameter.fill_(1.0 if role == "norm" else 0.0)
            continue
        std = standard_deviation(role, init, width=width, layers=layers)
        drawn = torch.empty(parameter.shape, dtype=torch.float32)
        parameter.copy_(drawn.normal_(0.0, std, generator=_generator(seed, name)))


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)

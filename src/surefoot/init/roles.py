"""What parameters are for: the names of the roles, and the check that a map is complete."""

import re
from collections.abc import Mapping

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.errors import UsageError, nearest

ROLES = {
    "embedding": "input embedding, also where the head is tied to it",
    "position": "table of learned positions, added to the embedding",
    "attention_in": "query, key and value matrices",
    "attention_value": "value matrix, where it is told apart from those of queries and keys",
    "attention_out": "output matrix of attention, written to the residual stream",
    "feed_forward_in": "gate and up matrices",
    "feed_forward_out": "down matrix, written to the residual stream",
    "router": "matrix that sends tokens to experts",
    "head": "output matrix onto the vocabulary",
    "norm": "gain of a normalisation: 1",
    "norm_offset": "gain of a normalisation that multiplies by 1 + gain, as Gemma's do: 0",
    "bias": "offset of a layer or a normalisation: 0",
    "scale": "trained factor (LayerScale, of a re-parameterised matrix): as its module made it",
}

CONSTANT = {"norm": 1.0, "norm_offset": 0.0, "bias": 0.0}
"""What every method sets these roles to, unless it says otherwise."""

DRAWN = tuple(role for role in ROLES if role not in CONSTANT and role != "scale")
"""Roles of tensors that are drawn."""

_REPARAMETRISED = re.compile(r"(.*?)parametrizations\.([^.]+)\.(original\d*|\d+\..*)")


def unwrapped(model: nn.Module) -> tuple[nn.Module, str]:
    """The model inside DistributedDataParallel and torch.compile, and what they put before names.

    Draws are seeded by name: a wrapper must not change them.
    """
    prefix = ""
    while True:
        if isinstance(model, DistributedDataParallel):
            model, prefix = model.module, f"{prefix}module."
        elif isinstance(inner := model.__dict__.get("_modules", {}).get("_orig_mod"), nn.Module):
            model, prefix = inner, f"{prefix}_orig_mod."
        else:
            return model, prefix


def plain_name(name: str) -> str:
    """The name a parameter has, or had before ``torch.nn.utils.parametrize`` wrapped it.

    ``a.parametrizations.weight.original`` is ``a.weight``; other names are returned as they are,
    also those of the tensors that a parametrization itself trains.
    """
    found = _REPARAMETRISED.fullmatch(name)
    if found is None or not found[3].startswith("original"):
        return name
    if found[3] != "original":
        raise UsageError(
            f"parameter {name!r}: this parametrization (such as weight_norm) keeps a matrix as "
            "several tensors, whose start is not known: apply it after the initialisation"
        )
    return found[1] + found[2]


def is_of_parametrization(name: str) -> bool:
    """Whether a parameter belongs to a parametrization and is not the tensor it acts on."""
    found = _REPARAMETRISED.fullmatch(name)
    return found is not None and not found[3].startswith("original")


def require_complete(model: nn.Module, roles: Mapping[str, str]) -> None:
    """Refuse a map that misses a parameter, names what is none, or uses an unknown role.

    Raises:
        UsageError: that names the parameter.
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
        require_role(role, f"parameter {name!r}")


def require_role(role: str, of: str) -> None:
    """Refuse a word that is no role.

    Raises:
        UsageError: with the nearest role.
    """
    if role not in ROLES:
        hint = nearest(role, list(ROLES))
        raise UsageError(f"unknown role {role!r} of {of}{hint}; known: {', '.join(ROLES)}")


def renamed(model: nn.Module, roles: Mapping[str, str]) -> dict[str, str]:
    """A role map of the names before a re-parameterisation, for the names after it.

    What a parametrization trains gets the role ``scale``; all other entries are kept.
    """
    now = {plain_name(name): name for name, _ in model.named_parameters()}
    named = {now.get(plain_name(name), name): role for name, role in roles.items()}
    for name, _ in model.named_parameters():
        if is_of_parametrization(name):
            named.setdefault(name, "scale")
    return named

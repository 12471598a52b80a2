"""Parameter groups: what decays, what has a rate of its own, and what is a matrix of a block."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from surefoot.errors import UsageError, nearest
from surefoot.recipe import Optimizer

KINDS = {
    **dict.fromkeys(["embedding", "position"], "embeddings"),
    **dict.fromkeys(["norm", "norm_offset", "bias", "scale"], "vectors"),
    **dict.fromkeys(["head", "router"], "matrices"),
    **dict.fromkeys(
        [
            "attention_in",
            "attention_value",
            "attention_out",
            "feed_forward_in",
            "feed_forward_out",
        ],
        "blocks",
    ),
}
"""Role of a parameter -> kind of its group."""

_IN_A_BLOCK = re.compile(r"(^|\.)\d+\.")
"""A name inside a numbered module, e.g. layers.3.attention.wq.weight."""


def parameter_groups(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rate_factors: Mapping[str, float] | None = None,
    roles: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The trainable parameters in groups, one a kind and rate factor.

    The kind is in ``group["name"]``. ``matrices`` decay. ``vectors`` (norm gains, biases, trained
    scales: fewer than two dimensions) do not. ``embeddings`` (weights of ``nn.Embedding``, also
    where a head is tied to them) do not unless ``optimizer.decay_embeddings``: shrinking ones
    enlarge the gradients of the first blocks (OLMo 2, 2501.00656). For muon, the matrices of the
    blocks are of a kind of their own, ``blocks``; head and router are not among them.

    ``group["rate_factor"]`` is what the schedule's rate is to be multiplied by; ``group["lr"]`` is
    so already. With ``optimizer.independent_decay`` a step decays by ``weight_decay`` times the
    schedule's share of its peak, whatever the peak and the factor are: ``group["weight_decay"]``
    is then divided by both (Wortsman et al. 2023, 2309.14322).

    Args:
        model: any module; a shared parameter appears once.
        optimizer: name, rate, decay.
        rate_factors: by parameter name, 1 for those that are not named.
        roles: by parameter name; what they do not name is recognised by module and name.

    Raises:
        UsageError: if the model has no trainable parameter, a name is not one of its parameters, a
            role is unknown, a factor is not above 0, or muon finds no matrix of a block.
    """
    factors, roles = rate_factors or {}, roles or {}
    _check(model, factors, roles)
    embeddings = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
    }
    found: dict[tuple[str, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = _kind(name, parameter, roles, embedding=id(parameter) in embeddings)
            if kind == "blocks" and optimizer.name != "muon":
                kind = "matrices"
            found.setdefault((kind, float(factors.get(name, 1.0))), []).append(parameter)
    if not found:
        raise UsageError("the model has no parameter with requires_grad: nothing to optimise")
    if optimizer.name == "muon" and all(kind != "blocks" for kind, _ in found):
        raise UsageError(
            "muon found no matrix of a block: give roles, or modules numbered as in "
            "layers.0.attention.wq.weight"
        )
    order = ["blocks", "matrices", "embeddings", "vectors"]
    return [
        {
            "name": kind,
            "params": found[kind, factor],
            "lr": optimizer.learning_rate * factor,
            "weight_decay": _decay(kind, factor, optimizer),
            "rate_factor": factor,
        }
        for kind, factor in sorted(found, key=lambda key: (order.index(key[0]), -key[1]))
    ]


def _kind(name: str, parameter: nn.Parameter, roles: Mapping[str, str], *, embedding: bool) -> str:
    if name in roles:
        kind = KINDS[roles[name]]
        # A block may hold vectors under a matrix's role, e.g. what sigmaReparam divides by.
        return "vectors" if parameter.ndim < 2 else kind
    if embedding:
        return "embeddings"
    if parameter.ndim < 2:
        return "vectors"
    return "blocks" if _IN_A_BLOCK.search(name) else "matrices"


def _decay(kind: str, factor: float, optimizer: Optimizer) -> float:
    if kind == "vectors" or (kind == "embeddings" and not optimizer.decay_embeddings):
        return 0.0
    if optimizer.independent_decay:
        return optimizer.weight_decay / (optimizer.learning_rate * factor)
    return optimizer.weight_decay


def _check(model: nn.Module, factors: Mapping[str, float], roles: Mapping[str, str]) -> None:
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for kind, given in (("rate_factors", factors), ("roles", roles)):
        for name in given:
            if name not in names:
                raise UsageError(
                    f"{kind}: no parameter {name!r} in the model{nearest(name, sorted(names))}"
                )
    for name, role in roles.items():
        if role not in KINDS:
            known = ", ".join(sorted(KINDS))
            raise UsageError(f"roles: unknown role {role!r} of {name}; known: {known}")
    for name, factor in factors.items():
        if not 0 < factor < float("inf"):
            raise UsageError(f"rate_factors: {name} has {factor}; expected a number above 0")

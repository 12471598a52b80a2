"""Up-cycling: a mixture of experts that starts as a dense model, each expert a copy.

Source: Komatsuzaki et al. 2022, 2212.05055. Here every block gets experts, and the weights of the
chosen are renormalised, so that the mixture computes at first just what the dense model computes.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.errors import UsageError, nearest
from surefoot.model.decoder import Decoder
from surefoot.recipe import Architecture

_FEED_FORWARD = "feed_forward"
_AS_COMPUTED = {
    "kv_heads": "key_value_heads",
    "ff_width": "inner_width",
    "residual_scale": "shortcut_factor",
    "attention_scale": "logit_factor",
    "embedding_scale": "input_factor",
    "head_scale": "output_factor",
}
"""Fields with a default that follows from others, and what they come to."""
_FREE = {
    "experts",
    "experts_per_token",
    "expert_capacity",
    "sequence_length",
    "embedding_gradient",
    "qk_clip",
    "query_key_layer_scaling",
}
"""Fields that may differ: they change no logit."""


class ParameterCounts(NamedTuple):
    """How many parameters a model has, and how many a token meets."""

    total: int
    active: int


def parameter_counts(architecture: Architecture) -> ParameterCounts:
    """Those of ``Decoder(architecture)``, without memory for it; equal for a dense one.

    A token meets all but the experts that it is not sent to.
    """
    total = sum(shape.numel() for shape in _parameters(architecture).values())
    if architecture.experts is None:
        return ParameterCounts(total, total)
    expert = sum(
        shape.numel()
        for name, shape in _parameters(_dense(architecture)).items()
        if _FEED_FORWARD in name.split(".")
    )
    return ParameterCounts(total, total - expert * _idle(architecture))


def upcycle(
    dense: Decoder,
    architecture: Architecture,
    *,
    seed: int,
    router_std: float = 0.02,
    noise: float = 0.0,
    redrawn: float = 0.0,
) -> Decoder:
    """A decoder with experts from one without, on its device, in its dtype and its mode.

    Its logits are those of the dense one up to rounding, unless ``noise`` or ``redrawn`` is set or
    an expert of limited capacity drops tokens in training.

    Args:
        dense: whose weights to copy; it is left as it is.
        architecture: the same but for ``experts``, ``experts_per_token`` and ``expert_capacity``,
            and for fields that change no logit.
        seed: this and the rest as in :func:`upcycled_state`.
        router_std: standard deviation of the routers' weights.
        noise: standard deviation of the noise on an expert's matrix, over that of its weights.
        redrawn: share of an expert's inner channels that are drawn anew.

    Raises:
        UsageError: if ``dense`` has experts already, ``architecture`` has none or differs in
            another field, or a number is out of range.
    """
    if dense.architecture.experts is not None:
        raise UsageError(
            f"the model has {dense.architecture.experts} experts already: up-cycling starts from a "
            "dense one"
        )
    _require_same_function(dense.architecture, architecture)
    state = upcycled_state(
        dense.state_dict(),
        architecture,
        seed=seed,
        router_std=router_std,
        noise=noise,
        redrawn=redrawn,
    )
    with torch.device("meta"):
        model = Decoder(architecture)
    # What is passed on is copied: the dense model stays as it is while the new one is trained.
    model.load_state_dict({name: tensor.clone() for name, tensor in state.items()}, assign=True)
    return model.train(dense.training)


@torch.no_grad()
def upcycled_state(
    state: Mapping[str, Tensor],
    architecture: Architecture,
    *,
    seed: int,
    router_std: float = 0.02,
    noise: float = 0.0,
    redrawn: float = 0.0,
) -> dict[str, Tensor]:
    """The state dict of a decoder with experts from that of a dense one.

    What is no feed-forward block is passed on, not copied. Every expert gets a copy of its own of
    the feed-forward block; each router is drawn from N(0, router_std²). What is drawn depends on
    ``seed`` and the name of the tensor alone.

    Args:
        state: of ``Decoder`` with this architecture but for its experts.
        architecture: with ``experts`` set.
        seed: of routers, noise and what is redrawn.
        router_std: standard deviation of the routers' weights. Behind a norm the router's logits
            start with about router_std · sqrt(width).
        noise: standard deviation of what is added to each matrix of an expert, over that of the
            matrix's own weights. Experts part without it, since they see different tokens.
        redrawn: share of an expert's inner channels whose weights are drawn anew, normal with the
            mean and standard deviation of the weights that they replace (Nakamura et al. 2025,
            2502.19261, who recommend 0.5 for hundreds of billions of tokens). An expert's channels
            are the same in all its matrices; the code published with the paper draws them for each
            matrix apart.

    Raises:
        UsageError: if ``architecture`` has no experts, a number is out of range, or ``state`` has
            experts already or does not fit: each tensor that is missing, unknown or of another
            shape is named.
    """
    if architecture.experts is None:
        raise UsageError("architecture.experts is not set: say how many experts to up-cycle to")
    for name, value, fits, expected in (
        ("router_std", router_std, router_std > 0, "more than 0: at 0 all tokens take one way"),
        ("noise", noise, noise >= 0, "0 or more"),
        ("redrawn", redrawn, 0 <= redrawn <= 1, "a share from 0 to 1"),
    ):
        if not fits:
            raise UsageError(f"{name} = {value}: expected {expected}")
    _require_fitting(state, architecture)
    result: dict[str, Tensor] = {}
    for name, tensor in state.items():
        block, found, inside = name.partition(f".{_FEED_FORWARD}.")
        if not found:
            result[name] = tensor
            continue
        for expert in range(architecture.experts):
            prefix = f"{block}.{_FEED_FORWARD}.experts.{expert}"
            copy = tensor.clone()
            if tensor.ndim == 2:
                _redraw(copy, inside, redrawn, seed, prefix)
                if noise:
                    drawn = _normal(tensor.shape, seed, f"noise:{prefix}.{inside}")
                    copy += (drawn * (noise * tensor.double().std().item())).to(copy)
            elif (noise or redrawn) and inside.endswith((".u", ".v")):
                copy.zero_()  # singular vectors of the copied matrix: to be computed anew
            result[f"{prefix}.{inside}"] = copy
    for layer in range(architecture.layers):
        like = next(t for name, t in state.items() if name.startswith(f"layers.{layer}."))
        name = f"layers.{layer}.{_FEED_FORWARD}.router"
        drawn = _normal(torch.Size((architecture.experts, architecture.width)), seed, name)
        weight = (drawn * router_std).to(like)
        if architecture.sigma_reparam:
            result |= _reparametrised(f"{name}.parametrizations.weight", weight)
        else:
            result[f"{name}.weight"] = weight
    return result


def _reparametrised(prefix: str, weight: Tensor) -> dict[str, Tensor]:
    """A matrix as :class:`surefoot.model.SigmaReparam` stores it, its spectral norm as gamma."""
    return {
        f"{prefix}.original": weight,
        f"{prefix}.0.gamma": torch.linalg.matrix_norm(weight.double(), ord=2).to(weight),
        f"{prefix}.0.u": weight.new_zeros(weight.shape[0]),  # 0 = computed at the first use
        f"{prefix}.0.v": weight.new_zeros(weight.shape[1]),
    }


def _redraw(matrix: Tensor, inside: str, share: float, seed: int, prefix: str) -> None:
    """Draw this share of the inner channels anew, in place."""
    number = int(share * matrix.shape[1 if inside.startswith("w2") else 0])
    if not number:
        return
    inner = matrix.T if inside.startswith("w2") else matrix  # inner channels as rows
    chosen = torch.randperm(len(inner), generator=_generator(seed, f"channels:{prefix}"))[:number]
    chosen = chosen.to(matrix.device)
    old = inner[chosen].double()
    drawn = _normal(old.shape, seed, f"redrawn:{prefix}.{inside}").to(old)
    inner[chosen] = (old.mean() + drawn * old.std()).to(matrix)


def _require_same_function(dense: Architecture, mixture: Architecture) -> None:
    differing = [
        f"{name} = {getattr(mixture, name)!r}, the dense model's is {getattr(dense, name)!r}"
        for name in type(dense).model_fields
        if name not in _FREE
        and getattr(mixture, _AS_COMPUTED.get(name, name))
        != getattr(dense, _AS_COMPUTED.get(name, name))
    ]
    if differing:
        raise UsageError(
            f"architecture.{'; architecture.'.join(differing)}: up-cycling changes experts, "
            "experts_per_token and expert_capacity only"
        )


def _require_fitting(state: Mapping[str, Tensor], architecture: Architecture) -> None:
    experts = next((name for name in state if f".{_FEED_FORWARD}.experts." in name), None)
    if experts is not None:
        raise UsageError(
            f"the state has experts already ({experts!r}): up-cycling starts from a dense model"
        )
    with torch.device("meta"):
        wanted = {n: t.shape for n, t in Decoder(_dense(architecture)).state_dict().items()}
    problems = list(_misfits({name: t.shape for name, t in state.items()}, wanted))
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UsageError(
            f"the dense state does not fit the architecture: {'; '.join(problems[:3])}{more}"
        )


def _misfits(given: Mapping[str, torch.Size], wanted: Mapping[str, torch.Size]) -> Iterator[str]:
    for name, shape in wanted.items():
        if name not in given:
            yield f"{name} is missing"
        elif given[name] != shape:
            yield f"{name} has shape {tuple(given[name])}, expected {tuple(shape)}"
    for name in given:
        if name not in wanted:
            yield f"{name} is unknown{nearest(name, list(wanted))}"


def _dense(architecture: Architecture) -> Architecture:
    return architecture.model_copy(update={"experts": None, "expert_capacity": None})


def _idle(architecture: Architecture) -> int:
    """Experts of a layer that a token does not meet."""
    return (architecture.experts or 0) - architecture.experts_per_token


def _parameters(architecture: Architecture) -> dict[str, torch.Size]:
    with torch.device("meta"):
        return {name: p.shape for name, p in Decoder(architecture).named_parameters()}


def _normal(shape: torch.Size, seed: int, name: str) -> Tensor:
    """Standard normal numbers, fp32 on the CPU: the same on every device and for every dtype."""
    return torch.empty(shape, dtype=torch.float32).normal_(generator=_generator(seed, name))


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)

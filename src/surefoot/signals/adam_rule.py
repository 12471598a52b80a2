"""What is known of an optimizer that keeps Adam's moments: its settings, and how it uses them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from surefoot.errors import UsageError, nearest

WORDS = ("first-moment", "direction", "size")
_TORCH = {
    torch.optim.Adam: ("first-moment", "direction", "size"),
    torch.optim.AdamW: ("first-moment", "direction", "size"),
    torch.optim.NAdam: ("first-moment",),
    torch.optim.RAdam: ("first-moment",),
}
"""NAdam, RAdam and others keep the same moments but move by another rule: of them only what depends
on the moments themselves is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How an optimizer makes and uses ``exp_avg`` (m) and ``exp_avg_sq`` (v).

    An optimizer that is not torch's says so in an attribute ``adam_rule``, a tuple of these words;
    without it nothing is taken for granted but that v is an average of squared gradients, stored
    without bias correction beside the number of updates, ``step``.

    Attributes:
        moment: ``"first-moment"``: m = beta1 m + (1 - beta1) g.
        direction: ``"direction"``: a parameter moves along m / (sqrt(v) + eps), bias-corrected,
            times a factor of its own.
        size: ``"size"``: that factor is the group's ``lr`` for all parameters, and decay, if
            decoupled, is lr ``weight_decay``.
    """

    moment: bool
    direction: bool
    size: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyper:
    """What a parameter's group says.

    Attributes:
        beta1: of the first moment.
        beta2: of the second moment.
        eps: added to sqrt(v).
        decay: weight decay, 0 unless it is decoupled from the gradient.
        coupled: whether there is one that is not: then the moments hold more than gradients.
        sign: -1 where the optimizer maximizes, else 1.
        group: number of the parameter group.
    """

    beta1: float
    beta2: float
    eps: float
    decay: float
    coupled: bool
    sign: int
    group: int


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """The rule of an optimizer.

    Raises:
        UsageError: if its ``adam_rule`` has a word that is not known.
    """
    words = getattr(optimizer, "adam_rule", None)
    if words is None:
        words = next((w for kind, w in _TORCH.items() if isinstance(optimizer, kind)), ())
    for word in words:
        if word not in WORDS:
            raise UsageError(
                f"{type(optimizer).__name__}.adam_rule: expected words of {', '.join(WORDS)}, "
                f"got {word!r}{nearest(str(word), list(WORDS))}"
            )
    return Rule(
        moment="first-moment" in words,
        direction="direction" in words,
        size="size" in words and "direction" in words,
    )


def hyper_of(
    optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]
) -> tuple[Hyper | None, ...]:
    """Settings of each parameter; None for one without Adam's state."""
    found: dict[Tensor, Hyper] = {}
    is_adamw = isinstance(optimizer, torch.optim.AdamW)
    ours = hasattr(optimizer, "adam_rule")
    for number, group in enumerate(optimizer.param_groups):
        if "betas" not in group:
            continue
        decoupled = group.get("decoupled_weight_decay", is_adamw or ours)
        decay = float(group["weight_decay"])
        hyper = Hyper(
            beta1=float(group["betas"][0]),
            beta2=float(group["betas"][1]),
            eps=float(group["eps"]),
            decay=decay if decoupled else 0.0,
            coupled=bool(decay) and not decoupled,
            sign=-1 if group.get("maximize") else 1,
            group=number,
        )
        found |= {p: hyper for p in group["params"]}
    return tuple(
        found.get(p) if _has_moments(state_of(optimizer, p), p) else None for p in parameters
    )


def state_of(optimizer: torch.optim.Optimizer, parameter: Tensor) -> Mapping[str, Any]:
    """What the optimizer keeps of a parameter, empty if nothing; adds nothing to it."""
    # `state` is a defaultdict: indexing would leave an empty entry behind.
    state: Mapping[str, Any] = optimizer.state.get(parameter, {})
    return state


def second_moment(state: Mapping[str, Any]) -> Tensor:
    """v, or with amsgrad its maximum: what the update is divided by."""
    second: Tensor = state["max_exp_avg_sq"] if "max_exp_avg_sq" in state else state["exp_avg_sq"]
    return second


def _has_moments(state: Mapping[str, Any], parameter: Tensor) -> bool:
    """Whether Adam's moments are there as plain tensors: other optimizers factor or pack them."""
    found = [state.get(name) for name in ("exp_avg", "exp_avg_sq")]
    return all(
        type(moment) is Tensor
        and moment.is_floating_point()
        and moment.shape == parameter.shape
        and moment.device == parameter.device
        for moment in found
    )

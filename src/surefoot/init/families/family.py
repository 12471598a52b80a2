"""What is known of a family of models: patterns of names, and what the names do not say."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from surefoot.registry import Registry


@dataclass(frozen=True, slots=True)
class Fused:
    """Matrices that lie side by side in one tensor, along the channels written.

    Attributes:
        roles: of each, in order.
        groups_key: setting of the model's configuration that says how often they repeat; None =
            once, each in one piece.
    """

    roles: tuple[str, ...]
    groups_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of models.

    Attributes:
        patterns: regular expression of the end of a parameter's name, from a dot on, to role. One
            that matches nothing does not matter: not every model has biases.
        placement: where the norms are, as ``norm_placement`` of a recipe.
        fused: pattern to what lies in one tensor.
        scales_embedding: whether the model multiplies its embedding by sqrt(width).
    """

    patterns: Mapping[str, str]
    placement: str
    fused: Mapping[str, Fused] = field(default_factory=dict)
    scales_embedding: bool = False

    def fused_at(self, name: str) -> Fused | None:
        """What lies in the tensor of this name; None if one matrix does."""
        for pattern, fused in self.fused.items():
            if matches(pattern, name):
                return fused
        return None

    def groups(self, model: nn.Module, fused: Fused) -> int:
        """How often the fused matrices repeat in a tensor of this model."""
        if fused.groups_key is None:
            return 1
        return int(getattr(config_of(model), fused.groups_key))

    def input_factor(self, model: nn.Module) -> float:
        """What the model multiplies its embedding by."""
        if not self.scales_embedding:
            return 1.0
        return float(config_of(model).hidden_size ** 0.5)


FAMILIES: Registry[Family] = Registry("model family")
"""By ``model_type`` of a transformers configuration."""


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern is the end of a name, from its start or a dot on."""
    return re.search(rf"(?:^|\.)(?:{pattern})$", name) is not None


def config_of(model: nn.Module) -> Any:
    """The configuration of a transformers model, also within a wrapper; None if there is none."""
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(getattr(config, "model_type", None), str):
            return config
    return None


def family_of(model: nn.Module) -> Family | None:
    """The family by the configuration's ``model_type``; None if it is not known."""
    config = config_of(model)
    return None if config is None else FAMILIES.get(config.model_type)

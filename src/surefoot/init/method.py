"""What an initialisation is: a spread for each weight, and sometimes more."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import nn

from surefoot.init.layout import Weight
from surefoot.init.scaled_matrix import ScaledMatrix
from surefoot.init.shape import Shape
from surefoot.recipe import Init
from surefoot.registry import Registry


@dataclass(frozen=True, slots=True)
class Spread:
    """How the entries of a matrix are drawn, around 0.

    Attributes:
        std: standard deviation; 0 = all zero.
        uniform: drawn evenly from plus or minus sqrt(3) std, else from a normal distribution.
    """

    std: float
    uniform: bool = False


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """An initialisation; a subclass is one method, its fields are what the method leaves open.

    ::

        @METHODS.register("constant-std")
        @dataclass(frozen=True, kw_only=True)
        class ConstantStd(Method):
            std: float = 0.02

            def spread(self, weight, shape):
                return Spread(self.std)
    """

    draws_biases = False
    """Whether biases are drawn too, not 0."""

    @classmethod
    def from_recipe(cls, init: Init) -> Self:
        """The method with what the section [init] of a recipe says."""
        return cls()

    @abstractmethod
    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """How a weight is drawn."""

    # Most methods need neither of the next two.

    def check(  # noqa: B027
        self, model: nn.Module, roles: Mapping[str, str], shape: Shape
    ) -> None:
        """Refuse a model on which the method is not defined.

        Raises:
            UsageError: with the reason and what to use.
        """

    def reparametrise(  # noqa: B027
        self, model: nn.Module, roles: Mapping[str, str]
    ) -> None:
        """Change what the parameters are, before an optimizer sees them."""

    @torch.no_grad()
    def set_scales(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Set the factors of re-parameterised matrices, after these are drawn: to 1."""
        for module in model.modules():
            if isinstance(module, ScaledMatrix):
                module.alpha.fill_(1.0)

    def rate_factor(self, role: str, shape: Shape) -> float:
        """Factor on the learning rate of a parameter."""
        return 1.0


METHODS: Registry[type[Method]] = Registry("initialisation")
"""By name, as ``init.method`` of a recipe."""

"""WeSaR: every matrix stored with the same small spread, times a trained factor."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import nn
from torch.nn.utils import parametrize

from surefoot.errors import UsageError
from surefoot.init.layout import Weight, layouts_of, owner
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.roles import DRAWN, plain_name
from surefoot.init.scaled_matrix import ScaledMatrix
from surefoot.init.shape import Shape, is_shared
from surefoot.recipe import Init


@METHODS.register("wesar")
@dataclass(frozen=True, kw_only=True)
class WeSaR(Method):
    """Matrices alpha W with W of one standard deviation for all of them (Nishida et al. 2024).

    alpha starts so that alpha W has the spread of He's initialisation with outputs over
    sqrt(2 layers), and is trained. Adam's step of W does not depend on alpha, so every matrix is
    updated by the same share of its norm: source 2410.05052. That holds for Adam, and while eps is
    far below the second moments' roots; not for SGD.

    Attributes:
        stored_std: of W, sqrt(4e-5). Tables start with it too, alpha = 1.
        table_std: target of the tables; None: ``stored_std``.
    """

    stored_std: float = math.sqrt(4e-5)
    table_std: float | None = None

    @classmethod
    def from_recipe(cls, init: Init) -> Self:
        """With the common standard deviation of the section."""
        return cls(stored_std=init.wesar_std)

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """The same for all."""
        return Spread(self.stored_std)

    def target(self, weight: Weight, shape: Shape) -> float:
        """Standard deviation that alpha W starts with."""
        if weight.role in ("embedding", "position"):
            return self.stored_std if self.table_std is None else self.table_std
        if weight.role == "attention_out":
            return 1 / math.sqrt(2 * shape.layers * weight.fan_in)
        if weight.role == "feed_forward_out":  # He's gain behind the activation
            return 1 / math.sqrt(shape.layers * weight.fan_in)
        return 1 / math.sqrt(weight.fan_in)

    def reparametrise(self, model: nn.Module, roles: Mapping[str, str]) -> None:
        """Put a :class:`ScaledMatrix` on every matrix and table; once more changes nothing.

        Raises:
            UsageError: if the head is tied, a tensor is no matrix, or another re-parameterisation
                is in place.
        """
        names = [name for name, role in roles.items() if role in DRAWN]
        if is_shared(model, roles):
            raise UsageError(
                '"wesar" gives each matrix a factor of its own, and here the head is the '
                "embedding's table, which starts with another: untie them "
                '(config.tie_word_embeddings = False), or use "spike-no-more"'
            )
        places = []
        for name in names:
            module, attribute = owner(model, plain_name(name))
            if _scaled(module, attribute) is not None:
                continue
            if parametrize.is_parametrized(module, attribute):
                raise UsageError(
                    f'parameter {plain_name(name)!r} is re-parameterised already: "wesar" would '
                    "act on what that undoes (architecture.sigma_reparam normalises the scale "
                    "away): choose one of them"
                )
            tensor = getattr(module, attribute)
            if not 2 <= tensor.ndim <= 3:
                raise UsageError(
                    f'"wesar" scales matrices: parameter {name!r} of shape {tuple(tensor.shape)} '
                    f"in {type(module).__name__} is none, although its role is {roles[name]!r}"
                )
            places.append((module, attribute, tensor))
        for module, attribute, tensor in places:
            scaled = ScaledMatrix(tensor.shape[:-2]).to(tensor.device, tensor.dtype)
            parametrize.register_parametrization(module, attribute, scaled)

    @torch.no_grad()
    def set_scales(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Set alpha to the target over the stored spread.

        Raises:
            UsageError: if a matrix is not re-parameterised.
        """
        layouts = layouts_of(model, roles)
        for name, parameter in model.named_parameters():
            if name not in layouts:
                continue
            scaled = _scaled(*owner(model, plain_name(name)))
            assert scaled is not None  # by check
            weight, _ = next(layouts[name].parts(parameter, plain_name(name), roles[name]))
            scaled.alpha.fill_(self.target(weight, shape) / self.stored_std)

    def check(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Refuse a model that was not re-parameterised first.

        Raises:
            UsageError: that names a matrix and the call to make.
        """
        for name, role in roles.items():
            if role not in DRAWN:
                continue
            if _scaled(*owner(model, plain_name(name))) is None:
                raise UsageError(
                    f'parameter {name!r} has no factor: "wesar" draws all matrices with '
                    f"{self.stored_std:.3g} and needs one on each. Call "
                    "surefoot.init.reparametrise(model, roles, init) first, before the optimizer "
                    "is made, and take the roles anew"
                )


def _scaled(module: nn.Module, attribute: str) -> ScaledMatrix | None:
    if not parametrize.is_parametrized(module, attribute):
        return None
    for one in module.parametrizations[attribute]:  # type: ignore[index]
        if isinstance(one, ScaledMatrix):
            return one
    return None

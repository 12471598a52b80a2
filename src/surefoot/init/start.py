"""Initialise any module in one line: a method by name, as a function of the module."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from surefoot.errors import UsageError, nearest
from surefoot.init.initialise import draw, factors
from surefoot.init.method import METHODS, Method
from surefoot.init.role_map import roles_of
from surefoot.init.roles import renamed, require_complete
from surefoot.init.shape import shape_of


@dataclass(frozen=True, kw_only=True)
class Start:
    """An initialisation that is ready to be called on a module; made by :func:`start`.

    Attributes:
        method: with its settings.
        seed: of the whole model.
        roles: parameter name to role, or a function that gives it for a module.
        width: channels of the residual stream; None = those of the embedding.
        layers: blocks; None = as counted in the names.
        placement: where the norms are; None = as seen.
    """

    method: Method
    seed: int
    roles: Mapping[str, str] | Callable[[nn.Module], Mapping[str, str]]
    width: int | None = None
    layers: int | None = None
    placement: str | None = None

    def __call__(self, model: nn.Module) -> None:
        """Set every parameter, re-parameterised first if the method asks for that.

        Raises:
            UsageError: if a parameter has no role, or the method is not defined for the module.
        """
        self.reparametrise(model)
        roles = self._roles(model)
        shape = shape_of(
            model, roles, width=self.width, layers=self.layers, placement=self.placement
        )
        draw(model, roles, self.method, shape, self.seed)

    def reparametrise(self, model: nn.Module) -> None:
        """Change what the parameters are and no values, as before the weights of a run are loaded.

        Raises:
            UsageError: if a parameter has no role, or the method is not defined for the module.
        """
        roles = self._roles(model)
        require_complete(model, roles)
        self.method.reparametrise(model, roles)

    def rate_factors(self, model: nn.Module) -> dict[str, float]:
        """Factors on the learning rate, by parameter; empty where the method has none."""
        return factors(model, self._roles(model), self.method, width=self.width)

    def _roles(self, model: nn.Module) -> Mapping[str, str]:
        return self.roles(model) if callable(self.roles) else renamed(model, self.roles)


def start(
    method: str,
    *,
    seed: int,
    roles: Mapping[str, str] | Callable[[nn.Module], Mapping[str, str]] = roles_of,
    width: int | None = None,
    layers: int | None = None,
    placement: str | None = None,
    **settings: Any,
) -> Start:
    """An initialisation as a function ``module -> None``.

    ::

        start("megatron", seed=1)(model)
        start("spike-no-more", seed=1, embedding_std="scaled")(model)
        start("deepnorm", seed=1, roles=my_roles, placement="deepnorm")(model)

        begin = start("mup", seed=1, base_width=256)
        begin(model)
        begin.rate_factors(model)  # {name: factor on its learning rate}

    ``wesar`` changes what the parameters are: call it before the optimizer is made.

    Args:
        method: one of ``METHODS``.
        seed: of the whole model.
        roles: parameter name to role, or a function that gives it for a module. Default:
            :func:`surefoot.init.roles_of`, which knows surefoot's decoder and families of
            transformers.
        width: channels of the residual stream. Default: those of the embedding.
        layers: blocks. Default: as counted in the names.
        placement: where the norms are, as ``norm_placement`` of a recipe; for a module on which
            that cannot be seen.
        settings: what the method leaves open: the fields of its class.

    Raises:
        UsageError: if the method or a setting is not known, or a setting is out of range.
    """
    return Start(
        method=_method(method, settings),
        seed=seed,
        roles=roles,
        width=width,
        layers=layers,
        placement=placement,
    )


def _method(name: str, settings: Mapping[str, Any]) -> Method:
    kind = METHODS.lookup(name)
    known = [field.name for field in fields(kind)]
    for setting, value in settings.items():
        if setting not in known:
            what = f"its settings are {', '.join(known)}" if known else "it has no settings"
            raise UsageError(
                f"{name!r} has no setting {setting!r}{nearest(setting, known)}: {what}"
            )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not 0 < value < math.inf:
            raise UsageError(f"{setting} = {value}: expected a number above 0")
    if name == "mup" and settings.get("base_width") is None:
        raise UsageError(
            '"mup" needs base_width=, the width at which the learning rate was tuned: all that it '
            "does is relative to it"
        )
    return kind(**settings)

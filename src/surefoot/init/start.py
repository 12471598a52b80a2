"""Initialise any module in one line: a method by name, as a function of the module."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from torch import nn

from surefoot.errors import UsageError, nearest
from surefoot.init.initialise import draw
from surefoot.init.method import METHODS, Method
from surefoot.init.role_map import roles_of
from surefoot.init.roles import renamed, require_complete
from surefoot.init.shape import shape_of


def start(
    method: str,
    *,
    seed: int,
    roles: Mapping[str, str] | Callable[[nn.Module], Mapping[str, str]] = roles_of,
    width: int | None = None,
    layers: int | None = None,
    placement: str | None = None,
    **settings: Any,
) -> Callable[[nn.Module], None]:
    """An initialisation as a function ``module -> None``.

    ::

        start("megatron", seed=1)(model)
        start("spike-no-more", seed=1, embedding_std="scaled")(model)
        start("deepnorm", seed=1, roles=my_roles, placement="deepnorm")(model)

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
        UsageError: here, if the method or a setting is not known; on the call, if a parameter has
            no role or the method is not defined for the module.
    """
    chosen = _method(method, settings)

    def initialise_module(model: nn.Module) -> None:
        given = roles(model) if callable(roles) else roles
        require_complete(model, given)
        chosen.reparametrise(model, given)
        if callable(roles):
            given = roles(model)  # names and parameters may be others now
        else:
            given = renamed(model, given)
        shape = shape_of(model, given, width=width, layers=layers, placement=placement)
        draw(model, given, chosen, shape, seed)

    return initialise_module


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

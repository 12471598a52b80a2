"""Facts of a model that an initialisation depends on, read off the model and its role map."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from surefoot.errors import UsageError
from surefoot.init.families import family_of
from surefoot.init.roles import plain_name, unwrapped

_NORMS = ("norm", "norm_offset")
_BLOCK = re.compile(r"(.*?\.|)\d+\.")
_LAST = re.compile(r"(.*\.|)\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model as initialisations see it.

    Attributes:
        width: channels of the residual stream.
        layers: blocks, each of attention and feed-forward.
        placement: where its norms are, as ``norm_placement`` of a recipe; None = not known.
        input_factor: what the model multiplies its embedding by on its own account, as Gemma does.
        tied: whether the head's tensor is the embedding's.
        norms: whether there is a normalisation.
    """

    width: int
    layers: int
    placement: str | None = None
    input_factor: float = 1.0
    tied: bool = False
    norms: bool = True


def shape_of(
    model: nn.Module,
    roles: Mapping[str, str],
    *,
    width: int | None = None,
    layers: int | None = None,
    placement: str | None = None,
) -> Shape:
    """Read the facts off a model; what is given is taken as given.

    Args:
        model: any module.
        roles: of every parameter.
        width: default: channels of the embedding.
        layers: default: the blocks that hold output matrices, told apart by the numbers in the
            names.
        placement: default: that of a surefoot decoder or of a known family.

    Raises:
        UsageError: if width or layers is neither given nor to be seen.
    """
    inner, _ = unwrapped(model)
    family = family_of(inner)
    architecture = getattr(inner, "architecture", None)
    if family is not None:
        factor = family.input_factor(inner)
    else:
        factor = float(getattr(architecture, "input_factor", 1.0))
    if placement is None:
        known = getattr(family, "placement", None)
        placement = getattr(architecture, "norm_placement", known)
    return Shape(
        width=_width(model, roles) if width is None else width,
        layers=_layers(roles) if layers is None else layers,
        placement=placement,
        input_factor=factor,
        tied=is_shared(model, roles),
        norms=any(role in _NORMS for role in roles.values()),
    )


def is_shared(model: nn.Module, roles: Mapping[str, str]) -> bool:
    """Whether two modules share the embedding's parameter, as with a tied head."""
    tables = {
        id(parameter)
        for name, parameter in model.named_parameters()
        if roles.get(name) == "embedding"
    }
    names = [
        name
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if id(parameter) in tables
    ]
    return len(names) > len(tables)


def _width(model: nn.Module, roles: Mapping[str, str]) -> int:
    for name, parameter in model.named_parameters():
        if roles.get(name) == "embedding":
            return parameter.shape[-1]
    raise UsageError('no parameter has the role "embedding", to see the width by: give width=')


def _layers(roles: Mapping[str, str]) -> int:
    # By attention, which is once in a block: its block has the last number in its name. Experts of
    # a feed-forward block are numbered themselves, so there it is the first.
    attention = {_LAST.match(plain_name(n)) for n, role in roles.items() if role == "attention_out"}
    blocks = {found[0] if found else "" for found in attention}
    if not blocks:
        feed = {_BLOCK.match(plain_name(n)) for n, r in roles.items() if r == "feed_forward_out"}
        blocks = {found[0] if found else "" for found in feed}
    if not blocks:
        raise UsageError(
            'no parameter has the role "attention_out" or "feed_forward_out", to count the blocks '
            "by: give layers="
        )
    return len(blocks)

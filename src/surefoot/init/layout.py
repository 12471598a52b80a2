"""How a matrix lies in its tensor: which way round, and whether several lie in one.

``nn.Linear`` keeps (out, in), transformers' ``Conv1D`` (in, out). Query, key and value may lie in
one tensor, whose fan-out would be three times that of each: Xavier on the fused tensor gives
weights that are too small by sqrt(2).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError
from surefoot.init.families import Fused, family_of
from surefoot.init.roles import CONSTANT, plain_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A matrix that is drawn, or one of several in a tensor, or a bias.

    Attributes:
        name: of the parameter, as before a re-parameterisation.
        role: what it is for.
        fan_in: channels it reads; of a bias, those of its layer's matrix.
        fan_out: channels it writes.
    """

    name: str
    role: str
    fan_in: int
    fan_out: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Which way round a tensor holds its matrices.

    Attributes:
        out: dimension of the channels written, counted from the end: -2 or -1.
        fused: what lies in it side by side; None = one matrix.
        groups: how often ``fused`` repeats along ``out``.
    """

    out: int = -2
    fused: Fused | None = None
    groups: int = 1

    def parts(self, tensor: Tensor, name: str, role: str) -> Iterator[tuple[Weight, Tensor]]:
        """Each matrix of a tensor, as facts and as a view into it.

        Raises:
            UsageError: if the tensor cannot hold matrices of this layout.
        """
        if not 2 <= tensor.ndim <= 3:
            raise UsageError(
                f"parameter {name!r} of shape {tuple(tensor.shape)} has the role {role!r}, which "
                "is that of a matrix (out, in), or of a stack of them: expected 2 or 3 dimensions"
            )
        fan_in = tensor.shape[-1 if self.out == -2 else -2]
        fan_out = tensor.shape[self.out]
        if self.fused is None:
            yield Weight(name=name, role=role, fan_in=fan_in, fan_out=fan_out), tensor
            return
        count = len(self.fused.roles)
        if fan_out % (count * self.groups):
            raise UsageError(
                f"parameter {name!r} of shape {tuple(tensor.shape)}: {fan_out} channels are not "
                f"{count} matrices in {self.groups} groups"
            )
        size = fan_out // (count * self.groups)
        out = tensor.ndim + self.out
        pieces = tensor.unflatten(out, (self.groups, count, size))  # type: ignore[no-untyped-call]
        for place, role_of_part in enumerate(self.fused.roles):
            part = Weight(name=name, role=role_of_part, fan_in=fan_in, fan_out=fan_out // count)
            yield part, pieces.select(out + 1, place)


def layouts_of(model: nn.Module, roles: Mapping[str, str]) -> dict[str, Layout]:
    """The layout of each drawn tensor, by the class of its module and the family of its model."""
    family = family_of(model)
    layouts = {}
    for name, role in roles.items():
        if role in CONSTANT or role == "scale":
            continue
        plain = plain_name(name)
        module, attribute = owner(model, plain)
        fused = family.fused_at(plain) if family is not None else None
        if isinstance(module, nn.MultiheadAttention) and attribute == "in_proj_weight":
            fused = Fused(("attention_in", "attention_in", "attention_value"))
        layouts[name] = Layout(
            out=-1 if is_conv1d(module) else -2,
            fused=fused,
            groups=1 if fused is None or family is None else family.groups(model, fused),
        )
    return layouts


def owner(model: nn.Module, plain: str) -> tuple[nn.Module, str]:
    """The module that has a parameter, and its attribute there."""
    path, _, attribute = plain.rpartition(".")
    return model.get_submodule(path), attribute


def is_conv1d(module: nn.Module) -> bool:
    """Whether it is transformers' Conv1D, a linear layer whose weight is (in, out)."""
    return any(kind.__name__ == "Conv1D" for kind in type(module).__mro__)


def bias_weight(model: nn.Module, name: str) -> Weight | None:
    """A bias by the fans of the matrix beside it; None for that of a normalisation."""
    module, attribute = owner(model, plain_name(name))
    matrix = getattr(module, attribute.replace("bias", "weight"), None)
    if not isinstance(matrix, torch.Tensor) or matrix.ndim < 2:
        return None
    fan_out, fan_in = matrix.shape[::-1] if is_conv1d(module) else matrix.shape
    return Weight(name=plain_name(name), role="bias", fan_in=fan_in, fan_out=fan_out)

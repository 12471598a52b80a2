"""What every clipper does, and how a recipe gets one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError
from surefoot.recipe import Optimizer
from surefoot.registry import Registry


class Clipper(ABC):
    """Limits the gradient of a step; all on the device, nothing waits for the host.

    A step whose norm is not finite leaves no trace in any clipper: the factor is 1, gradients and
    history stay as they are, and the update is to be left out by ``found_inf``. To keep a step that
    is left out for another reason out of the history too, hand in NaN for its norm::

        factor = clipper(torch.where(skip > 0, math.nan, norm))
    """

    kept: ClassVar[tuple[str, ...]] = ()
    """Attributes that make up the history: tensors of fixed shape, changed in place."""

    smallest: Tensor
    """Smallest factor that the last call gave any part of the gradient, 0-d, for the record: what
    is clipped tensor by tensor does not show in the factor on the whole."""

    @torch.no_grad()
    def __call__(self, norm: Tensor, scale: Tensor | None = None) -> Tensor:
        """Take in a step's norm, scale single gradients in place where the method does so.

        Args:
            norm: global L2 norm of the unscaled gradient, 0-d; may be NaN or infinite. The same on
                every rank, as are the gradients after their exchange: then so is the history.
            scale: the loss scale that the gradients still carry, 0-d; None = 1.

        Returns:
            The factor that the whole gradient is still to be multiplied by, 0-d, in (0, 1].
        """
        factor, self.smallest = self._clip(norm, scale)
        return factor

    @abstractmethod
    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        """The method itself: the factor on the whole, and the smallest on any part."""

    def state_dict(self) -> dict[str, Tensor]:
        """The history; the tensors themselves."""
        return {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the history of :meth:`state_dict`.

        Raises:
            UsageError: if it is that of another method or of other parameters.
        """
        own = self.state_dict()
        shapes = [{k: tuple(v.shape) for k, v in values.items()} for values in (state, own)]
        if shapes[0] != shapes[1]:
            raise UsageError(
                f"the saved clipping history {_told(shapes[0])} is not that of "
                f"{type(self).__name__} {_told(shapes[1])}: resume with the optimizer.clip of the "
                "run and the same model, or start the history anew by leaving it out"
            )
        for name, value in own.items():
            value.copy_(state[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is clipped.

    Attributes:
        parameters: those whose gradients the norm is of.
        head: those of the output head, which AGC leaves alone.
        transposed: matrices that are kept as (in, out), as ``Conv1D`` of GPT-2 does.
    """

    parameters: Sequence[nn.Parameter]
    head: Sequence[nn.Parameter] = ()
    transposed: Sequence[nn.Parameter] = ()


CLIPPERS: Registry[Callable[[Optimizer, Target], Clipper]] = Registry("clipping")
"""Methods by the recipe's ``optimizer.clip``."""


def build_clipper(
    optimizer: Optimizer,
    parameters: Sequence[nn.Parameter],
    *,
    head: Sequence[nn.Parameter] = (),
    transposed: Sequence[nn.Parameter] = (),
) -> Clipper:
    """The clipper that a recipe asks for.

    Args:
        optimizer: ``clip`` and the settings that go with it.
        parameters: all that are trained, on their device, each once; ``.grad`` is read at each
            call.
        head: those of the output head; AGC leaves them alone.
        transposed: matrices kept as (in, out); AGC takes their columns for units.

    Raises:
        UsageError: if there are no parameters, or the method is not known.
    """
    if not parameters:
        raise UsageError("clipping needs the trained parameters, got none")
    target = Target(parameters=parameters, head=head, transposed=transposed)
    return CLIPPERS.lookup(optimizer.clip)(optimizer, target)


def limited(norm: Tensor, limit: Tensor) -> Tensor:
    """The factor that brings ``norm`` down to ``limit``; 1 where it is below or not finite.

    Never 0, so that dividing by it stays possible. Unlike :func:`surefoot.optim.clip_factor` it
    adds nothing to the norm: limits taken from the past may be as small as 1e-6 themselves.
    """
    factor = (limit / norm).clamp(min=torch.finfo(norm.dtype).tiny)
    return torch.where(norm.isfinite() & (norm > limit), factor, 1.0)


def _told(shapes: Mapping[str, tuple[int, ...]]) -> str:
    parts = (f"{name} {shape}" for name, shape in sorted(shapes.items()))
    return f"({', '.join(parts) or 'nothing'})"

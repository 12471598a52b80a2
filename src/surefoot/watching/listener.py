"""What torch says of a step: the optimizer's hooks, and what is measured in them."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from surefoot.signals import Meter
from surefoot.watching.hooks import has_closure, largest_rate


class Listener:
    """Measures within ``optimizer.step()``: the gradient it is given, and what it makes of it.

    The hooks hold it weakly: one that nobody holds any more is over.

    Args:
        meter: measures.
        optimizer: torch's own.
        parameters: the trainable ones of the model.
        step: steps taken before.

    Attributes:
        step: the step that is going on.
        began: whether the optimizer's step was called in it.
        updated: and had gradients.
        values: scalars found in it.
        hooks: to remove at the end.
    """

    def __init__(
        self, meter: Meter, optimizer: Optimizer, parameters: Sequence[Tensor], step: int
    ) -> None:
        self._meter = meter
        self._parameters = parameters
        self.begin(step + 1)
        self.hooks: list[RemovableHandle] = [
            optimizer.register_step_pre_hook(_weak(self._before)),
            optimizer.register_step_post_hook(_weak(self._after)),
        ]

    def begin(self, step: int) -> None:
        """Begin a step."""
        self.step = step
        self.began = self.updated = False
        self.values: dict[str, float | int | Tensor] = {}

    @property
    def due(self) -> bool:
        """Whether the sampled signals are measured in the step that is going on."""
        return self._meter.is_sampled(self.step)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Runs at the beginning of ``optimizer.step()``."""
        self.began = True
        self._meter.before_update(self.step)
        found_inf = getattr(optimizer, "found_inf", None)
        self.values = {
            "learning_rate": largest_rate(optimizer),
            "update_skipped": 0 if found_inf is None else found_inf.detach().clone().reshape(()),
        }
        if not has_closure(args, kwargs):
            self._measure(getattr(optimizer, "grad_scale", None))

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Runs at the end of ``optimizer.step()``."""
        if has_closure(args, kwargs):
            # The gradient was made within the step.
            self._measure(None)
        self._meter.after_update(self.step)

    def _measure(self, unscale: Tensor | None) -> None:
        if any(p.grad is not None for p in self._parameters):
            self._meter.norms(self.step, unscale=unscale)
            self.updated = True


def _weak(method: Callable[[Optimizer, Any, Any], None]) -> Callable[[Optimizer, Any, Any], None]:
    reference = weakref.WeakMethod(method)

    def hook(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        call = reference()
        if call is not None:
            call(optimizer, args, kwargs)

    return hook

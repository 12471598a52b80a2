"""Whether a loop calls what it should, in the order that it should: told before a run is wasted."""

import warnings

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError

PATIENCE = 20
"""Steps in a row without an update after which something is wrong: a gradient scaler that begins
at 2^16 finds its scale in fewer."""


class Wiring:
    """Looks at each step of a loop; raises at its beginning, later it only warns.

    A step without an update is not wrong by itself: a gradient scaler leaves it out where the
    gradient overflowed, and the loop may have dropped the gradients by the time we look.

    Args:
        model: what is trained.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._ever_updated = False
        self._missed = 0
        self._grown = False

    def check(self, step: int, *, began: bool, updated: bool, idle: bool) -> None:
        """Look at the step that ends.

        Args:
            step: steps that ended before it.
            began: the optimizer's step was called.
            updated: and there were gradients.
            idle: the loop tells losses, but told none of this step.

        Raises:
            UsageError: if the loop cannot be meant.
        """
        if updated:
            self._ever_updated, self._missed = True, 0
            if step % PATIENCE == 0:
                self._check_parameters()
            return
        if step and idle and not began:
            raise UsageError(
                f"watch.step() was called twice for step {step}: call it once for each "
                "optimizer.step(), after watch.loss(loss)"
            )
        self._missed += 1
        if self._ever_updated:
            if self._missed == PATIENCE and not self._overflowed():
                _warn(
                    f"no update of the optimizer that was given to watch() for {PATIENCE} steps: "
                    "if the loop has another one now, call watch.finish() and surefoot.watch again"
                )
            return
        dropped = not self._gradients() and self._missed < PATIENCE
        if began or not (dropped or self._overflowed()):
            raise UsageError(
                "watch.step() has seen no optimizer.step() with gradients: call loss.backward(), "
                "optimizer.step(), watch.step() and then optimizer.zero_grad(), with the optimizer "
                "that was given to watch()"
            )

    def _check_parameters(self) -> None:
        now = sum(p.requires_grad for p in self._model.parameters())
        if now != len(self._parameters) and not self._grown:
            self._grown = True
            _warn(
                f"the model has {now} trainable parameters, {len(self._parameters)} when watch() "
                "was called: the others are not measured; call watch.finish() and surefoot.watch "
                "again"
            )

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self._parameters if p.grad is not None]

    def _overflowed(self) -> bool:
        """Whether there are gradients that are not finite; waits for the device."""
        return not all(bool(torch.isfinite(g).all()) for g in self._gradients())


def _warn(text: str) -> None:
    # At the line of the loop that called watch.step().
    warnings.warn(text, stacklevel=5)

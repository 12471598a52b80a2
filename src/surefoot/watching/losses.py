"""What a loop tells of a step: losses of one forward pass or several, and further numbers."""

import math
from typing import Any

import torch
from torch import Tensor

from surefoot.errors import UsageError
from surefoot.model import LossSums, loss_sums
from surefoot.records import CATALOGUE


class Losses:
    """Adds up what the forward passes of a step say; on the device, nothing waits.

    Args:
        device: where the model is; losses on another are brought there.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Begin a step."""
        self._loss: Tensor | None = None
        self._weight: Tensor | None = None
        self._counted = True
        self._logits: LossSums | None = None

    @property
    def told(self) -> bool:
        """Whether there is a loss."""
        return self._loss is not None

    @torch.no_grad()
    def add(self, loss: Any, tokens: Any) -> None:
        """Take in a loss; the arguments of :meth:`surefoot.watching.Watch.loss`."""
        value = self._number(loss, "loss").to(torch.float32)
        weight = self._number(1 if tokens is None else tokens, "tokens").to(torch.float64)
        if self._device.type == "mps":
            weight = weight.to(torch.float32)
        # The mean over no token is NaN, and says nothing.
        value = torch.where(weight > 0, value * weight, 0)
        self._counted = self._counted and tokens is not None
        self._loss = value if self._loss is None else self._loss + value
        self._weight = weight if self._weight is None else self._weight + weight

    @torch.no_grad()
    def add_logits(self, logits: Tensor, targets: Tensor | None, ignore_index: int) -> None:
        """Take in logits; the arguments of :meth:`surefoot.watching.Watch.logits`."""
        if targets is None:
            targets = torch.zeros(logits.shape[:-1], dtype=torch.int64, device=logits.device)
        if targets.shape != logits.shape[:-1]:
            raise UsageError(
                f"watch.logits takes logits (..., V) and targets (...), got {tuple(logits.shape)} "
                f"and {tuple(targets.shape)}: cut both alike, e.g. logits[:, :-1] and tokens[:, 1:]"
            )
        found = loss_sums(logits.detach(), targets, ignore_index)
        sums = LossSums._make(value.to(self._device) for value in found)
        if self._logits is not None:
            largest = torch.maximum(self._logits.log_z_abs_max, sums.log_z_abs_max)
            added = LossSums._make(a + b for a, b in zip(self._logits, sums, strict=True))
            sums = added._replace(log_z_abs_max=largest)
        self._logits = sums

    def take(self) -> tuple[dict[str, Tensor] | None, Tensor | None]:
        """Sums for :meth:`surefoot.signals.Meter.record`, and the number of tokens if told."""
        sums: dict[str, Tensor] = {}
        if self._loss is not None and self._weight is not None:
            sums = {"cross_entropy": self._loss, "tokens": self._weight}
        if self._logits is not None:
            z = self._logits
            # Means of the logits' own tokens, weighed over ranks as the loss is.
            scale = sums["tokens"] / z.tokens if sums else torch.ones_like(z.tokens)
            sums.setdefault("tokens", z.tokens)
            sums |= {
                "log_z": z.log_z * scale,
                "log_z_squared": z.log_z_squared * scale,
                "log_z_abs_max": z.log_z_abs_max,
            }
        tokens = self._weight if self._counted else None
        self.clear()
        return sums or None, tokens

    def _number(self, given: Any, name: str) -> Tensor:
        """A 0-d tensor on the device."""
        if not isinstance(given, Tensor):
            try:
                return torch.full((), float(given), device=self._device, dtype=self._dtype)
            except (TypeError, ValueError):
                raise UsageError(
                    f"watch.loss takes {name} as a number or a tensor of one, got "
                    f"{type(given).__name__}: type watch.loss(loss)"
                ) from None
        if given.numel() != 1:
            raise UsageError(
                f"watch.loss takes one number, got {name} as a tensor of shape "
                f"{tuple(given.shape)}: type watch.loss(loss.mean())"
            )
        return given.detach().reshape(()).to(self._device, non_blocking=True)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float32 if self._device.type == "mps" else torch.float64


def signal_value(name: str, value: Any, device: torch.device) -> float | int | Tensor:
    """A number that the loop gives for the catalogued signal ``name``.

    Returns:
        A host number, or a 0-d tensor on ``device``.

    Raises:
        UsageError: if it is not one number, or a counter is not whole.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise UsageError(
                f"watch.step({name}=...) takes one number, got a tensor of shape "
                f"{tuple(value.shape)}"
            )
        return value.detach().reshape(()).to(device, non_blocking=True)
    if isinstance(value, int):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(
            f"watch.step({name}=...) takes a number, got {type(value).__name__}"
        ) from None
    if not CATALOGUE[name].integer:
        return number
    if not math.isfinite(number) or number != round(number):
        raise UsageError(f"watch.step({name}=...) takes a whole number, got {value!r}")
    return round(number)

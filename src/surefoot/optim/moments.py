"""What the optimizers with Adam's moments have in common: state, counters, one call a group."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from surefoot.errors import UsageError
from surefoot.optim.lists import SMALLEST

Params = Iterable[Tensor] | Iterable[dict[str, Any]]


class MomentOptimizer(torch.optim.Optimizer, ABC):
    """Base of optimizers that keep ``exp_avg``, ``exp_avg_sq`` and ``step`` a parameter.

    The moments are kept as torch's Adam keeps them (not bias-corrected, in the parameter's dtype),
    so what reads Adam's state reads these, and these take up a state of torch's Adam or AdamW; the
    settings that it lacks are then their own.

    Where an attribute ``found_inf`` (0-d) is set and not 0, :meth:`step` leaves parameters and
    state bit-equal; by ``grad_scale`` (0-d) gradients are divided first. Both are torch's protocol
    of fused optimizers, so ``torch.amp.GradScaler`` knows it; nothing waits for a device.

    Args:
        params: parameters or groups of them.
        defaults: settings of a group that does not have its own.
    """

    _step_supports_amp_scaling = True

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        # `capturable`, as torch uses the word: counters are on the parameter's device, also
        # after load_state_dict.
        super().__init__(params, {**defaults, "capturable": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a state; groups of another optimizer get the settings that they lack."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            group["capturable"] = True

    @abstractmethod
    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Update parameters of one group and device.

        Args:
            group: the settings.
            params: all with gradients.
            flags: ``grad_scale`` and ``found_inf``, 0-d or None, for the functional form.
        """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make one update.

        Raises:
            UsageError: if a gradient is sparse, or a parameter is sharded or has gaps in memory.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        flags = [getattr(self, name, None) for name in ("grad_scale", "found_inf")]
        for group in self.param_groups:
            for (device, _), params in _batches(group["params"]).items():
                scale, found = (None if f is None else f.to(device) for f in flags)
                self.update(group, params, {"grad_scale": scale, "found_inf": found})
        return loss

    def call(
        self,
        function: Callable[..., None],
        group: dict[str, Any],
        columns: Iterable[list[Tensor]],
        flags: dict[str, Any],
        *own: str,
    ) -> None:
        """Call a functional form with the settings of a group: Adam's, and those in ``own``."""
        beta1, beta2 = group["betas"]
        settings = {name: group[name] for name in ("lr", "eps", "weight_decay", *own)}
        function(*columns, beta1=beta1, beta2=beta2, **settings, **flags)

    def columns(
        self, params: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Gradients, first and second moments and counters; made, as zeros, where not there yet."""
        for p in params:
            for name in ("exp_avg", "exp_avg_sq"):
                if name not in self.state[p]:
                    zeros = torch.zeros_like(p, memory_format=torch.preserve_format)
                    self.state[p][name] = zeros
        first, second = ([self.state[p][n] for p in params] for n in ("exp_avg", "exp_avg_sq"))
        return gradients(params), first, second, self.counters(params, "step")

    def counters(self, params: list[Tensor], name: str) -> list[Tensor]:
        """0-d float32 tensors on the device of each parameter; made where not there yet."""
        for p in params:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros((), dtype=torch.float32, device=p.device)
        return [self.state[p][name] for p in params]


def gradients(params: list[Tensor]) -> list[Tensor]:
    """Of parameters that have them, laid out as these: fused kernels go by memory, not by index."""
    found = []
    for p in params:
        grad = p.grad
        assert grad is not None
        if grad.stride() != p.stride() and not (grad.is_contiguous() and p.is_contiguous()):
            grad = torch.empty_like(p).copy_(grad)
        found.append(grad)
    return found


def adam_settings(
    lr: float | Tensor, betas: tuple[float, float], eps: float, weight_decay: float
) -> dict[str, Any]:
    """Settings of a group, checked.

    Raises:
        UsageError: if one is out of its range.
    """
    within("lr", lr, 0 <= float(lr), "at least 0")
    for i in (0, 1):
        within(f"betas[{i}]", betas[i], 0 <= betas[i] < 1, "in [0, 1)")
    within("eps", eps, eps >= 0, "at least 0")
    within("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
    return {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}


def within(name: str, value: object, fits: bool, expected: str) -> None:
    """Refuse a setting out of its range.

    Raises:
        UsageError: with name, value and range.
    """
    if not fits:
        raise UsageError(f"{name} = {value}: expected a number {expected}")


def next_second(g: list[Tensor], v: list[Tensor], beta2: float) -> list[Tensor]:
    """What the second moment will be after it takes in the gradient; new tensors."""
    found = list(torch._foreach_mul(v, beta2))
    torch._foreach_addcmul_(found, g, g, 1 - beta2)
    return found


def floor_of(eps: float, root2: Tensor) -> Tensor:
    """What is added to the root of a v that is not corrected: eps sqrt(1 - beta2^t), never 0."""
    return (eps * root2).clamp(min=SMALLEST)


def _batches(params: Iterable[Tensor]) -> dict[tuple[torch.device, torch.dtype], list[Tensor]]:
    """Parameters with gradients, by device and dtype: a foreach call takes one of each."""
    found: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for p in params:
        if p.grad is None:
            continue
        if p.grad.is_sparse:
            raise UsageError(
                f"the gradient of a parameter of shape {list(p.shape)} is sparse: make the "
                "embedding with sparse=False"
            )
        # Known by its mesh: importing the class takes most of a second.
        if hasattr(p, "device_mesh"):
            raise UsageError(
                f"a parameter of shape {list(p.shape)} is sharded (DTensor): these updates need "
                "whole tensors; use DistributedDataParallel, or torch.optim.AdamW"
            )
        if not _is_dense(p):
            raise UsageError(
                f"a parameter of shape {list(p.shape)} has gaps in memory (strides "
                f"{list(p.stride())}): make it of a contiguous() tensor"
            )
        found.setdefault((p.device, p.dtype), []).append(p)
    return found


def _is_dense(tensor: Tensor) -> bool:
    if tensor.is_contiguous():
        return True
    size = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1 and stride != size:
            return False
        size *= length
    return True

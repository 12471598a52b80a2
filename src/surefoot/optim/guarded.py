"""An optimizer step that is not made where a gradient is not finite, decided on the device."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from surefoot.optim.adamw_update_clip import AdamWUpdateClip
from surefoot.optim.laprop import LaProp
from surefoot.optim.muon import Muon
from surefoot.optim.spam import SPAM
from surefoot.optim.stable_adamw import StableAdamW

_OURS = (StableAdamW, AdamWUpdateClip, LaProp, Muon, SPAM)


@torch.no_grad()
def guarded_step(
    optimizer: Optimizer, *, found_inf: Tensor, grad_divisor: Tensor | None = None
) -> None:
    """Make the update unless ``found_inf``; then parameters, moments and step stay bit-equal.

    torch's fused Adam and AdamW take both tensors into their kernel, and surefoot's own optimizers
    into their step: no sync, no copy of all. (torch's fused SGD does not initialise the momentum of
    a skipped first step, so it is not among them.) For any other optimizer, also one derived from
    these, the gradients are divided in place, parameters and state are copied before
    the step (as much memory again, two more passes over it) and chosen back by ``torch.where``.
    There the host reads the flag only if the step changed what ``where`` cannot choose: state made
    by a first step, Python numbers in the state or in a group, tensors kept on another device.

    Gradients are left divided where the update was made.

    Args:
        optimizer: any torch optimizer whose ``step`` takes no closure.
        found_inf: 0-d fp32, 1 where a gradient holds NaN or inf, else 0.
        grad_divisor: 0-d fp32 by which gradients are divided: loss scale over clip factor.
            None = 1.
    """
    if _takes_flags(optimizer):
        optimizer.found_inf = found_inf  # type: ignore[attr-defined]
        optimizer.grad_scale = grad_divisor  # type: ignore[attr-defined]
        try:
            optimizer.step()
        finally:
            del optimizer.found_inf, optimizer.grad_scale  # type: ignore[attr-defined]
        return
    if grad_divisor is not None:
        for gradient in (p.grad for p in _parameters(optimizer) if p.grad is not None):
            gradient.div_(grad_divisor.to(gradient.device))
    before = _Snapshot(optimizer)
    optimizer.step()
    before.put_back_if(found_inf)


def _takes_flags(optimizer: Optimizer) -> bool:
    """Whether its own step is known to honour found_inf and grad_scale; a derived one's is not."""
    kind = type(optimizer)
    if kind in (Adam, AdamW):
        return all(group.get("fused") for group in optimizer.param_groups)
    return kind in _OURS


class _Snapshot:
    """A copy of all that a step may change, and the way back to it."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.state = optimizer.state
        self.parameters = [(p.detach(), p.detach().clone()) for p in _parameters(optimizer)]
        # What is kept by name: the settings of each group and the state of each parameter.
        self.groups = [(group, _copied(group)) for group in optimizer.param_groups]
        self.states = [(p, values, _copied(values)) for p, values in optimizer.state.items()]

    def put_back_if(self, found_inf: Tensor) -> None:
        chosen = list(self.parameters)
        host = len(self.state) != len(self.states)
        for now, before in self._kept():
            host = host or now.keys() - {"params"} != before.keys()
            for key in before.keys() & now.keys():
                new, old = now[key], before[key]
                if isinstance(new, Tensor) and isinstance(old, Tensor) and _alike(new, old):
                    chosen.append((new, old))
                else:
                    host = host or not (isinstance(new, _PLAIN) and new == old)
        bad = found_inf > 0
        for new, old in chosen:
            new.copy_(torch.where(bad.to(new.device), old, new))
        if host and bool(found_inf):
            for now, before in self._kept():
                for key in now.keys() - before.keys() - {"params"}:
                    del now[key]
                now.update(before)
            self.state.clear()
            self.state.update((p, values) for p, values, _ in self.states)

    def _kept(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self.groups + [(values, before) for _, values, before in self.states]


_PLAIN = (bool, int, float, str, tuple, type(None))


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    return {key: copy.deepcopy(value) for key, value in values.items() if key != "params"}


def _alike(new: Tensor, old: Tensor) -> bool:
    return (new.shape, new.dtype, new.device) == (old.shape, old.dtype, old.device)

"""Where torch lets itself be watched: optimizers, their steps, a model's forward pass."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from surefoot.errors import UsageError


def inner_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer inside wrappers that keep it as ``optimizer``, as accelerate's does.

    Raises:
        UsageError: if there is none.
    """
    inner: Any = optimizer
    while isinstance(getattr(inner, "optimizer", None), Optimizer):
        inner = inner.optimizer
    if not isinstance(inner, Optimizer):
        raise UsageError(
            f"watch takes a torch.optim.Optimizer, got {type(optimizer).__name__}: pass the "
            "optimizer that it wraps"
        )
    return inner


def bare_model(model: nn.Module) -> nn.Module:
    """The module inside DistributedDataParallel and ``torch.compile``."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def is_compiled(model: nn.Module) -> bool:
    """Whether ``torch.compile`` is somewhere around the module, or was called on it in place."""
    inner: Any = model
    while isinstance(inner, nn.Module):
        if hasattr(inner, "_orig_mod") or getattr(inner, "_compiled_call_impl", None) is not None:
            return True
        inner = getattr(inner, "module", None)
    return False


def has_closure(args: Any, kwargs: Any) -> bool:
    """Whether ``optimizer.step`` was called with a closure; arguments as its hooks get them."""
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    return closure is not None


def largest_rate(optimizer: Optimizer) -> float | Tensor:
    """The largest learning rate of the groups, on the host or on the device."""
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    numbers = [float(rate) for rate in rates if not isinstance(rate, Tensor)]
    tensors = [rate.detach().reshape(()).float() for rate in rates if isinstance(rate, Tensor)]
    if not tensors:
        return max(numbers, default=float("nan"))
    if numbers:
        tensors.append(torch.full((), max(numbers), device=tensors[0].device))
    return torch.stack(tensors).amax()


class AttentionHook:
    """Measures attention logits in the forward passes of a model that can.

    That is one with a context manager ``measure_attention_logits()`` for its next forward pass and
    an attribute ``attention_logit_max`` (layers,) after it, as surefoot's decoder is. The first
    training pass of a step is measured.

    A copy of the model, in memory or pickled, does not carry the measurement.

    Args:
        model: the bare module.
        due: whether the step that is going on is to be measured.

    Attributes:
        hooks: to remove at the end.
    """

    def __init__(self, model: nn.Module, due: Callable[[], bool]) -> None:
        self._model = weakref.ref(model)
        self._due = due
        self._context: Any = None
        self._found: Tensor | None = None
        self.hooks: list[RemovableHandle] = [
            model.register_forward_pre_hook(_Before(self)),
            model.register_forward_hook(_After(self), always_call=True),
        ]

    def take(self) -> Tensor | None:
        """The logits of the step that ends, if they were measured."""
        found, self._found = self._found, None
        return found

    def before(self, module: nn.Module) -> None:
        """Begin to measure, if it is time."""
        mine = module is self._model() and module.training and torch.is_grad_enabled()
        if mine and self._found is None and self._context is None and self._due():
            measure: Any = module.measure_attention_logits
            self._context = measure()
            self._context.__enter__()

    def after(self, module: nn.Module) -> None:
        """Take what was measured; also where the pass failed."""
        if self._context is None or module is not self._model():
            return
        context, self._context = self._context, None
        context.__exit__(None, None, None)
        found = getattr(module, "attention_logit_max", None)
        self._found = found.detach() if isinstance(found, Tensor) else None


class _Inert:
    """A hook that a copied or unpickled model has in place of one of ours."""

    def __call__(self, *arguments: Any) -> None:
        return None


class _Copied:
    """Copies as :class:`_Inert`: a bound method would take the whole watch with it."""

    def __init__(self, hook: AttentionHook) -> None:
        self.hook = hook

    def __copy__(self) -> _Inert:
        return _Inert()

    def __deepcopy__(self, memo: Any) -> _Inert:
        return _Inert()

    def __reduce__(self) -> tuple[type[_Inert], tuple[()]]:
        return _Inert, ()


class _Before(_Copied):
    def __call__(self, module: nn.Module, inputs: Any) -> None:
        self.hook.before(module)


class _After(_Copied):
    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.hook.after(module)

"""Gradients changed between the backward pass and whoever reads them next.

Each fault is a context manager around the backward pass. It hangs on autograd's own
post-accumulation hooks, so it works in any loop, before clipping and before what is measured.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from surefoot.testing.bits import flip_bit


@contextlib.contextmanager
def change_gradients(
    parameters: Iterable[nn.Parameter], change: Callable[[nn.Parameter], None]
) -> Iterator[None]:
    """Call ``change(parameter)`` once ``parameter.grad`` is there, after each backward pass inside.

    Args:
        parameters: leaves that take a gradient.
        change: changes ``parameter.grad`` in place, or puts another tensor there.
    """

    def hook(parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter)
        with torch.no_grad():
            change(parameter)

    handles = [
        p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        for p in parameters
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def drop_gradients(parameters: Iterable[nn.Parameter], keep: float = 0.0) -> Iterator[None]:
    """Lose the gradient of some parameters, silently: a bucket that was never reduced.

    Args:
        parameters: whose gradient is lost.
        keep: factor that is left of it: 0 = all lost; 1/2 = one of two ranks' share lost.
    """

    def change(parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(keep)

    with change_gradients(parameters, change):
        yield


@contextlib.contextmanager
def flip_gradient_bit(parameter: nn.Parameter, index: int, bit: int) -> Iterator[None]:
    """Turn over one bit of one element of a gradient; see :func:`surefoot.testing.flip_bit`."""

    def change(changed: nn.Parameter) -> None:
        assert changed.grad is not None
        changed.grad = changed.grad.contiguous()
        flip_bit(changed.grad, index, bit)

    with change_gradients([parameter], change):
        yield


@contextlib.contextmanager
def replace_gradients(others: Mapping[nn.Parameter, Tensor], weight: float = 1.0) -> Iterator[None]:
    """Mix other gradients in: g becomes ``(1 - weight) g + weight other``.

    Args:
        others: by parameter, a tensor of its shape.
        weight: of the other gradient; with two ranks each counts 1/2.
    """

    def change(parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        parameter.grad.lerp_(others[parameter], weight)

    with change_gradients(others, change):
        yield

"""How an update goes over its tensors: cache-sized pieces on a CPU, batches on a device.

On a CPU a step costs what it moves through memory, and torch's foreach functions go over all
tensors once an operation. Here all operations go over one piece that stays in the cache before the
next is taken. On a device the same code gets many whole tensors at once, so that each foreach call
is one kernel. Scalars are Python floats in the first case, tensors in the second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

CHUNK_ON_CPU = 2**16
"""Elements of a piece on a CPU for each thread: four float32 tensors of them fill 1 MB of cache."""

BATCH_ON_DEVICE = 2**26
"""Elements of a batch elsewhere: it bounds the temporary memory, 256 MB a float32 column."""

SMALLEST = torch.finfo(torch.float32).tiny
"""Least denominator, so that 0/0 is 0 where eps times a bias correction is 0."""

Scalars = list[float] | list[Tensor]
Column = Sequence[Tensor]
Part = tuple[list[Tensor], ...]

HOSTS = ("cpu",)
"""Devices whose tensors the host reads without waiting."""


def on_host(tensor: Tensor) -> bool:
    """Whether reading this tensor's values makes the host wait for nothing."""
    return tensor.device.type in HOSTS


def units(columns: Sequence[Column]) -> Iterator[tuple[slice, list[Part]]]:
    """All tensors, some at a time: one in pieces, or several whole ones.

    Args:
        columns: gradients and what goes with them; all on one device.

    Yields:
        Which of the tensors they are, and their parts: of each column a piece of each tensor.
    """
    first, tensors = 0, columns[0]
    if on_host(tensors[0]):
        for i in range(len(tensors)):
            yield slice(i, i + 1), _pieces([column[i] for column in columns])
        return
    while first < len(tensors):
        size, last = tensors[first].numel(), first + 1
        while last < len(tensors) and size + tensors[last].numel() <= BATCH_ON_DEVICE:
            size, last = size + tensors[last].numel(), last + 1
        yield slice(first, last), [tuple(list(column[first:last]) for column in columns)]
        first = last


def fresh(parts: list[Part], divisor: Tensor | None) -> Iterator[Part]:
    """The parts, the first column divided in place as each comes, while it is in the cache."""
    for part in parts:
        unscale_(part[0], divisor)
        yield part


def counts(steps: Column) -> Tensor:
    """Updates made to each tensor with the coming one, from 0-d counters; float64 (P,).

    Float64, for 1 - beta^t loses digits.
    """
    return torch.stack(list(steps)).double() + 1


def of_tensors(norms: list[Sequence[Tensor]]) -> list[Tensor]:
    """L2 norms of the tensors of a unit, from those of its pieces part by part."""
    if len(norms) == 1:
        return list(norms[0])
    return [torch.linalg.vector_norm(torch.stack(each)) for each in zip(*norms, strict=True)]


def root_mean_square(norms: list[Tensor], tensors: Column) -> Tensor:
    """Of tensors from their L2 norms; float64 (P,)."""
    sizes = [max(1, tensor.numel()) for tensor in tensors]  # an empty tensor has no mean
    roots = torch.tensor(sizes, dtype=torch.float64).sqrt()
    return torch.stack(norms).double() / roots.to(norms[0].device, non_blocking=True)


def scalars(values: Tensor) -> Scalars:
    """One scalar a tensor, from (k,): floats where the host has them, else 0-d tensors."""
    if on_host(values):
        found: list[float] = values.tolist()
        return found
    return list(values.unbind())


def skipped(found_inf: Tensor | None) -> bool:
    """Whether the host knows that no update is to be made; a device's flag is not waited for."""
    return found_inf is not None and on_host(found_inf) and bool(found_inf > 0)


@contextmanager
def kept_where(found_inf: Tensor | None, tensors: Sequence[Tensor]) -> Iterator[None]:
    """Give the tensors their former bits after the block where a device's flag is set."""
    if found_inf is None or on_host(found_inf):
        yield
        return
    before = [tensor.clone() for tensor in tensors]
    yield
    bad = found_inf > 0
    for now, old in zip(tensors, before, strict=True):
        torch.where(bad, old, now, out=now)


def unscale_(grads: list[Tensor], divisor: Tensor | None) -> None:
    """Divide gradients in place by a 0-d tensor."""
    if divisor is None:
        return
    if not on_host(grads[0]):
        torch._foreach_div_(grads, divisor)
    elif (number := float(divisor)) != 1:
        torch._foreach_mul_(grads, 1 / number)


def add_ratio_(x: list[Tensor], over: list[Tensor], under: list[Tensor], factors: Scalars) -> None:
    """Add factor * over / under to x."""
    if isinstance(factors[0], float):
        torch._foreach_addcdiv_(x, over, under, factors)
        return
    ratio = torch._foreach_div(over, under)
    torch._foreach_mul_(ratio, factors)
    torch._foreach_add_(x, ratio)


def norms(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """L2 norms, in float32 at least: those of bf16 tensors would be bf16 numbers."""
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return torch._foreach_norm(list(tensors), 2, dtype=dtype)


def _pieces(row: list[Tensor]) -> list[Part]:
    """Of one gradient and what goes with it: pieces as views."""
    # A view as a vector must not be a copy: a tensor laid out otherwise stays whole.
    chunk = CHUNK_ON_CPU * torch.get_num_threads()
    if row[0].numel() <= chunk or not all(tensor.is_contiguous() for tensor in row):
        return [tuple([tensor] for tensor in row)]
    cut = [torch.split(tensor.view(-1), chunk) for tensor in row]
    return [tuple([piece] for piece in pieces) for pieces in zip(*cut, strict=True)]

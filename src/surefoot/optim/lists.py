"""How an update goes over its tensors: cache-sized pieces on a CPU, batches on a device.

On a CPU a step costs what it moves through memory, and torch's foreach functions go over all
tensors once an operation. Here all operations go over one piece that stays in the cache before the
next is taken. On a device the same code gets many whole tensors at once, so that each foreach call
is one kernel. Scalars are Python floats in the first case, tensors in the second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK_ON_CPU = 2**16
"""Elements of a piece on a CPU: four float32 tensors of them fill 1 MB of cache."""

BATCH_ON_DEVICE = 2**26
"""Elements of a batch elsewhere: it bounds the temporary memory, 256 MB a float32 column."""

SMALLEST = torch.finfo(torch.float32).tiny
"""Least denominator, so that 0/0 is 0 where eps times a bias correction is 0."""

Scalars = list[float] | list[Tensor]
Column = Sequence[Tensor]


HOSTS = ("cpu",)
"""Devices whose tensors the host reads without waiting."""


def on_host(tensor: Tensor) -> bool:
    """Whether reading this tensor's values makes the host wait for nothing."""
    return tensor.device.type in HOSTS


@dataclass(frozen=True, slots=True)
class Unit:
    """Tensors that are gone over together: one in pieces, or several whole ones.

    Attributes:
        numbers: which of all tensors they are.
        parts: of each part the columns, gradients first; a column has a piece of each tensor.
        count: updates made to each tensor, with this one; float64 (k,).
        sizes: elements of each, float64 (k,).
        divisor: 0-d, of the gradients.
    """

    numbers: slice
    parts: list[tuple[list[Tensor], ...]]
    count: Tensor
    sizes: Tensor
    divisor: Tensor | None

    def fresh(self) -> Iterator[tuple[list[Tensor], ...]]:
        """The parts, each gradient divided in place as it comes; go over this once."""
        for part in self.parts:
            unscale_(part[0], self.divisor)
            yield part

    def rms(self, norms: list[Sequence[Tensor]]) -> Tensor:
        """Root mean square of each tensor, from the norms of its pieces part by part; (k,)."""
        each = torch.stack([torch.stack(list(part)) for part in norms]).double()
        found: Tensor = torch.linalg.vector_norm(each, dim=0) / self.sizes.sqrt()
        return found


def units(columns: Sequence[Column], steps: Column, divisor: Tensor | None) -> Iterator[Unit]:
    """All tensors, unit by unit.

    Args:
        columns: gradients, then what goes with them; all on one device.
        steps: 0-d counters of the updates made before, one a tensor.
        divisor: 0-d, of the gradients; None = 1.
    """
    count = torch.stack(list(steps)).double() + 1
    for numbers, parts in _units(columns):
        sizes = [max(1, g.numel()) for g in columns[0][numbers]]  # an empty tensor has no mean
        yield Unit(
            numbers=numbers,
            parts=parts,
            count=count[numbers],
            sizes=torch.tensor(sizes, dtype=torch.float64).to(count.device, non_blocking=True),
            divisor=divisor,
        )


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


def _units(columns: Sequence[Column]) -> Iterator[tuple[slice, list[tuple[list[Tensor], ...]]]]:
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


def _pieces(row: list[Tensor]) -> list[tuple[list[Tensor], ...]]:
    """Of one gradient and what goes with it: pieces as views."""
    # A view as a vector must not be a copy: a tensor laid out otherwise stays whole.
    if row[0].numel() <= CHUNK_ON_CPU or not all(tensor.is_contiguous() for tensor in row):
        return [tuple([tensor] for tensor in row)]
    cut = [torch.split(tensor.view(-1), CHUNK_ON_CPU) for tensor in row]
    return [tuple([piece] for piece in pieces) for pieces in zip(*cut, strict=True)]

"""AGC: the gradient of each output unit is clipped by the size of its weights."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target
from surefoot.optim.clipping.tensors import measuring_type, reads_are_free
from surefoot.recipe import Optimizer

SMALLEST = 1e-3
"""Weights below this norm count as this, so that a unit that starts at 0 can leave it."""


class AGC(Clipper):
    """Clips ||G_i|| of unit i at ``ratio * max(||W_i||, 1e-3)`` (Brock et al. 2021, 2102.06171).

    A unit is what makes one output: a row of a matrix (out, in), which ``nn.Linear`` and
    ``nn.Embedding`` keep, all of ``weight[i]`` in tensors of more dimensions. Of a matrix kept as
    (in, out), such as the ``Conv1D`` of GPT-2, it is a column; shapes do not tell, so name it in
    ``transposed``. A tensor with at most one dimension longer than 1 (gains, biases, scalars) is
    one unit.

    It has no history: a step is judged by its weights alone. What it does not do: tell a spike from
    a gradient that is large relative to small weights at all times. A model just initialised may
    be clipped at every step.

    Args:
        parameters: all that are trained.
        ratio: largest norm of a unit's gradient over that of its weights.
        head: left alone, as the paper's code leaves the last layer. With tied embeddings that is
            the embedding too.
        transposed: matrices kept as (in, out).
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        ratio: float = 0.01,
        *,
        head: Sequence[nn.Parameter] = (),
        transposed: Sequence[nn.Parameter] = (),
    ) -> None:
        left_alone, turned = {id(p) for p in head}, {id(p) for p in transposed}
        self.ratio = ratio
        self.dtype = measuring_type(parameters)
        self.units = [
            (p, _within_unit(p, id(p) in turned))
            for p in parameters
            if p.numel() and id(p) not in left_alone
        ]

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        finite = norm.isfinite()
        gradients, factors = [], []
        whole = smallest = torch.ones_like(norm)
        for p, dims in self.units:
            if p.grad is None:
                continue
            factor = torch.where(finite, self._factors(p, p.grad, dims, scale), 1.0)
            if not (reads_are_free(factor) and bool((factor == 1).all())):
                gradients.append(p.grad)
                factors.append(factor)
                smallest = torch.minimum(smallest, factor.amin())
        if gradients:
            torch._foreach_mul_(gradients, factors)
        return whole, smallest

    def _factors(
        self, p: Tensor, gradient: Tensor, dims: tuple[int, ...], scale: Tensor | None
    ) -> Tensor:
        """One a unit, with dimensions of size 1 where the unit extends."""

        def norms(x: Tensor) -> Tensor:
            norm: Tensor = torch.linalg.vector_norm(x, dim=dims, keepdim=True, dtype=self.dtype)
            return norm

        own = norms(gradient)
        limit = self.ratio * norms(p).clamp(min=SMALLEST)
        if scale is not None:
            limit = limit * scale
        return torch.where(own.isfinite() & (own > limit), limit / own, 1.0)


def _within_unit(p: Tensor, transposed: bool) -> tuple[int, ...]:
    """The dimensions over which a unit extends."""
    every = tuple(range(p.ndim))
    if sum(size > 1 for size in p.shape) <= 1:
        return every
    return every[:-1] if transposed else every[1:]


@CLIPPERS.register("agc")
def _agc(optimizer: Optimizer, target: Target) -> Clipper:
    ratio = 0.01 if optimizer.clip_ratio is None else optimizer.clip_ratio
    return AGC(target.parameters, ratio, head=target.head, transposed=target.transposed)

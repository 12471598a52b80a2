"""AutoClip: the gradient norm is clipped at a percentile of all norms so far."""

import torch
from torch import Tensor

from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target, limited
from surefoot.recipe import Optimizer

BINS_PER_OCTAVE = 128
LOWEST, HIGHEST = -64, 64
"""Bins of equal width in log2 of the norm, from 2^-64 to 2^64; what lies outside counts to the
first or the last."""


class AutoClip(Clipper):
    """Clips at the ``percentile`` of all norms so far (Seetharaman et al. 2020, 2007.14469).

    This step's norm is counted among them, so the first one is not clipped. Between two norms the
    percentile is interpolated, as numpy does.

    All norms of a run would be a history without end. What is kept is a count for each of 16384
    bins, 128 an octave, of which the upper edge stands for what it holds: the limit is never below
    the exact one and at most 0.55 % above it, over any number of steps, and any order of the same
    norms gives the same limit. A norm of 0 is not counted: a step without gradient says nothing,
    and enough of them would set the limit to 0 for good.

    With the usual 10 nine steps of ten are clipped, by design: it makes of the gradient a direction
    with a slowly moving length. Under Adam that length cancels where it is constant.

    Args:
        percentile: within (0, 100).
        device: where the history lives.

    Attributes:
        counts: norms in each bin, (16384,) int64.
    """

    kept = ("counts",)

    def __init__(self, percentile: float = 10.0, *, device: torch.device | str = "cpu") -> None:
        self.percentile = percentile
        bins = (HIGHEST - LOWEST) * BINS_PER_OCTAVE
        self.counts = torch.zeros(bins, dtype=torch.int64, device=device)

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        counted = norm.isfinite() & (norm > 0)
        place = torch.where(counted, norm, 1.0).to(torch.float64).log2() - LOWEST
        # Bins are open below: a norm on an edge belongs to the bin that ends there.
        index = (
            ((place * BINS_PER_OCTAVE).ceil() - 1).clamp(0, len(self.counts) - 1).to(torch.int64)
        )
        self.counts.index_add_(0, index.view(1), counted.view(1).to(torch.int64))
        factor = limited(norm, self.limit().to(norm.dtype))
        return factor, factor

    @torch.no_grad()
    def limit(self) -> Tensor:
        """The norm that is clipped at now, 0-d fp32; infinite before the first."""
        cumulative = self.counts.cumsum(0)
        total = cumulative[-1]
        # Ranks from 0; float64 holds them exactly where float32 ends at 16 million steps.
        rank = (total - 1).clamp(min=0).to(torch.float64) * (self.percentile / 100)
        below = rank.floor()
        ranks = torch.stack((below, rank.ceil())).to(torch.int64)
        bins = torch.searchsorted(cumulative, ranks + 1)
        edges = torch.exp2((bins + 1).to(torch.float64) / BINS_PER_OCTAVE + LOWEST)
        limit = edges[0] + (rank - below) * (edges[1] - edges[0])
        return torch.where(total > 0, limit, torch.inf).to(torch.float32)


@CLIPPERS.register("autoclip")
def _autoclip(optimizer: Optimizer, target: Target) -> Clipper:
    return AutoClip(optimizer.clip_percentile, device=target.parameters[0].device)

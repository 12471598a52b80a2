"""ZClip: the gradient norm is clipped where it stands out from its own recent past."""

from typing import Literal

import torch
from torch import Tensor

from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target
from surefoot.recipe import Optimizer

EPS = 1e-6
"""Added to standard deviation and norm, as in the public code; norms are taken to be far above."""


class ZClip(Clipper):
    """Clips the global norm n where its z-score exceeds ``z`` (Kumar et al. 2025, 2504.02507).

    The first ``warmup`` norms are only collected, clipped at ``clip``; their mean mu and population
    variance are where the averages start. Then, with s the square root of the variance::

        score = (n - mu) / (s + 1e-6)
        limit = (mu + z^2 s / score) * factor      if score > z, else n
        mu    = decay mu + (1 - decay) min(n, limit)
        var   = decay var + (1 - decay) (min(n, limit) - mu)^2

    and the norm is brought down to min(limit, clip). Two things are read in the public code, not
    in words about it, and are taken from there; the other reading is an option. The variance is
    taken about the mean that has *already* moved (``about="old"``: about the one before, which
    makes the variance 1/decay^2, 6 %, larger at rest). ``factor`` multiplies the whole limit
    (``factor_of="spread"``: what is above mu only, as the code's own description says); at 1, the
    default, both are the same.

    What it does not do: follow a norm that has risen for good. The further n is above mu, the
    closer the limit comes to mu and the smaller the values that enter the variance, so a rise of
    many s is clipped to the old level ever after. Under Adam a constant factor cancels, so a run
    goes on all the same.

    Args:
        z: largest score.
        clip: largest norm at any time; 0 = none.
        decay: of the two averages.
        warmup: norms that are collected first.
        factor: on the limit.
        factor_of: what ``factor`` multiplies.
        about: the mean that the variance is taken about.
        device: where the history lives.

    Attributes:
        mean: of the norms, 0-d float64, in which the square of any float32 is finite.
        variance: of the norms, 0-d float64.
        steps: finite norms seen, 0-d int64.
    """

    kept = ("mean", "variance", "steps")

    def __init__(
        self,
        z: float = 2.5,
        *,
        clip: float = 1.0,
        decay: float = 0.97,
        warmup: int = 25,
        factor: float = 1.0,
        factor_of: Literal["limit", "spread"] = "limit",
        about: Literal["new", "old"] = "new",
        device: torch.device | str = "cpu",
    ) -> None:
        self.z, self.clip, self.decay, self.warmup = z, clip, decay, warmup
        self.factor, self.factor_of, self.about = factor, factor_of, about
        self.mean = torch.zeros((), dtype=torch.float64, device=device)
        self.variance = torch.zeros((), dtype=torch.float64, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        finite = norm.isfinite()
        collecting = self.steps < self.warmup
        exact = norm.to(torch.float64)
        limit = torch.where(collecting, exact, self._limit(exact))
        self._take_in(torch.minimum(exact, limit), finite, collecting)
        factor = torch.where(finite & (exact > limit), limit / (exact + EPS), 1.0)
        factor = factor.to(norm.dtype).clamp(min=torch.finfo(norm.dtype).tiny, max=1.0)
        factor = torch.minimum(factor, clip_factor(norm, self.clip))
        return factor, factor

    def _limit(self, norm: Tensor) -> Tensor:
        """The norm itself where it does not stand out."""
        spread = self.variance.sqrt()
        score = (norm - self.mean) / (spread + EPS)
        above = self.z * self.z * spread / score
        if self.factor_of == "spread":
            limit = self.mean + self.factor * above
        else:
            limit = self.factor * (self.mean + above)
        return torch.where(score > self.z, limit, norm)

    def _take_in(self, value: Tensor, finite: Tensor, collecting: Tensor) -> None:
        """Move the averages: plain ones while collecting (Welford), then exponential ones."""
        number = (self.steps + 1).to(torch.float64)
        share = torch.where(collecting, 1 / number, 1 - self.decay)
        off = value - self.mean
        mean = self.mean + share * off
        # Mean and population variance of k values follow from those of k - 1 by the product of
        # the distances to the old and to the new mean.
        square = (value - mean) * torch.where(collecting, off, value - mean)
        if self.about == "old":
            square = torch.where(collecting, square, off * off)
        variance = self.variance + share * (square - self.variance)
        self.mean.copy_(torch.where(finite, mean, self.mean))
        self.variance.copy_(torch.where(finite, variance, self.variance))
        self.steps.add_(finite)


@CLIPPERS.register("zclip")
def _zclip(optimizer: Optimizer, target: Target) -> Clipper:
    return ZClip(optimizer.clip_z, clip=optimizer.clip_norm, device=target.parameters[0].device)

"""AdaGC: each tensor's gradient is clipped by its own history."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target
from surefoot.optim.clipping.tensors import gradient_norms, measuring_type, scale_gradients
from surefoot.recipe import Optimizer


class AdaGC(Clipper):
    """Clips each tensor at ``ratio`` times the average of its norm (Wang et al. 2025, 2502.11034).

    During the first ``warmup`` steps the whole gradient is clipped at ``clip``, and gamma of each
    tensor becomes the smallest norm so clipped. Then, for a tensor of gradient norm n::

        n'    = min(n, ratio * gamma)
        gamma = decay gamma + (1 - decay) n'

    A norm of 0 (an expert that no token was sent to, a matrix behind one that is still 0) says
    nothing about a tensor and does not enter: gamma would become 0 and the tensor never move again.

    What it does not do: follow a gradient that has grown for good. gamma grows by at most
    (ratio - 1)(1 - decay), a tenth of a percent a step, so a tensor whose gradient doubles is held
    back for some 700 steps; the minimum over the warm-up makes the start low. Under Adam a constant
    factor cancels, but this one changes from step to step.

    Args:
        parameters: all that are trained.
        ratio: largest norm over gamma.
        clip: largest global norm during the warm-up; 0 = none.
        decay: of gamma.
        warmup: steps of the warm-up.

    Attributes:
        gamma: (P,), infinite until a tensor's first gradient.
        steps: steps with a finite norm, 0-d int64.
    """

    kept = ("gamma", "steps")

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        ratio: float = 1.05,
        *,
        clip: float = 1.0,
        decay: float = 0.98,
        warmup: int = 100,
    ) -> None:
        self.parameters = list(parameters)
        self.ratio, self.clip, self.decay, self.warmup = ratio, clip, decay, warmup
        device = self.parameters[0].device
        dtype = measuring_type(self.parameters)
        self.gamma = torch.full((len(self.parameters),), math.inf, dtype=dtype, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        norms = gradient_norms(self.parameters, self.gamma.dtype)
        if scale is not None:
            norms = norms / scale
        usable = norm.isfinite() & norms.isfinite() & (norms > 0)
        warming = self.steps < self.warmup
        overall = torch.where(warming, clip_factor(norm, self.clip), 1.0)

        limit = self.ratio * self.gamma
        held = torch.where(warming, norms * overall, torch.minimum(norms, limit))
        factors = torch.where(usable & ~warming & (norms > limit), limit / norms, 1.0)
        average = self.decay * self.gamma + (1 - self.decay) * held
        first = warming | self.gamma.isinf()
        gamma = torch.where(first, torch.minimum(self.gamma, held), average)
        self.gamma.copy_(torch.where(usable, gamma, self.gamma))
        self.steps.add_(norm.isfinite())
        scale_gradients(self.parameters, factors)
        return overall, torch.minimum(overall, factors.amin())


@CLIPPERS.register("adagc")
def _adagc(optimizer: Optimizer, target: Target) -> Clipper:
    ratio = 1.05 if optimizer.clip_ratio is None else optimizer.clip_ratio
    return AdaGC(target.parameters, ratio, clip=optimizer.clip_norm)

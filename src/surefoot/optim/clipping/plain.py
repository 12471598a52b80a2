"""Clipping by the global norm, and no clipping: the two without a history."""

import torch
from torch import Tensor

from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target
from surefoot.recipe import Optimizer


class ClipNorm(Clipper):
    """The whole gradient, to a norm of at most ``clip`` (Pascanu et al. 2012, 1211.5063).

    Args:
        clip: the largest norm; 0 = no clipping.
    """

    def __init__(self, clip: float) -> None:
        self.clip = clip

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        factor = clip_factor(norm, self.clip)
        return factor, factor


class NoClip(Clipper):
    """Leaves every gradient as it is."""

    def _clip(self, norm: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        factor = torch.ones_like(norm)
        return factor, factor


@CLIPPERS.register("norm")
def _norm(optimizer: Optimizer, target: Target) -> Clipper:
    return ClipNorm(optimizer.clip_norm)


@CLIPPERS.register("none")
def _none(optimizer: Optimizer, target: Target) -> Clipper:
    return NoClip()

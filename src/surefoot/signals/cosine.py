"""How a gradient lies to the ones before it: its cosine with Adam's first moment of before.

Adam made m = beta1 m_old + (1 - beta1) g, so that after the update

    beta1 m_old = m - (1 - beta1) g,        cos(g, m_old) = <g, beta1 m_old> / (|g| |beta1 m_old|)

The difference is taken element by element in scratch. From dot products of whole tensors it would
be lost to rounding just where it matters: after a spike (1 - beta1) g is many times beta1 m_old.

The cosine does not depend on the scale of g: a clipped gradient gives the same. Gradients that
agree step after step are what makes Adam unstable: Molybog et al. 2023, 2304.09871.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CosineSums:
    """Sums for the cosine on the device, one entry a chunk.

    Attributes:
        dot: <g, beta1 m_old>.
        moment: |beta1 m_old|.
    """

    dot: list[Tensor] = field(default_factory=list)
    moment: list[Tensor] = field(default_factory=list)

    def add(self, moment: Tensor, gradient: Tensor | None, share: Tensor, scratch: Tensor) -> None:
        """Take in a chunk.

        Args:
            moment: Adam's first moment after the update.
            gradient: of this step, as the optimizer saw it, of the type of ``scratch``; None = no
                gradient.
            share: the part of ``gradient`` that is in ``moment``, 0-d: 1 - beta1, negative where
                the optimizer maximizes, 0 where the update was skipped.
            scratch: shaped like ``moment``, overwritten.
        """
        if gradient is None:
            for sums in (self.dot, self.moment):
                sums.append(torch.zeros_like(share))
            return
        torch.mul(gradient, share.neg(), out=scratch).add_(moment)
        self.moment.append(torch.linalg.vector_norm(scratch))
        # Not torch.dot: what a library makes of it may depend on where the memory begins.
        self.dot.append(scratch.mul_(gradient).sum())

    def parts(self) -> list[tuple[str, Tensor]]:
        """The sums as vectors by name, for the mailbox."""
        return [
            ("cosine_dot", torch.stack(self.dot)),
            ("cosine_moment", torch.stack(self.moment)),
        ]


def cosines(dot: Vector, moment: Vector, gradient: Vector) -> Vector:
    """Cosines from sums of products and of squares; 0 where one of the two is zero.

    Args:
        dot: sum of g m.
        moment: sum of m^2.
        gradient: sum of g^2.
    """
    size = np.sqrt(moment) * np.sqrt(gradient)
    return np.clip(np.where(size == 0, 0.0, dot / np.where(size == 0, 1.0, size)), -1.0, 1.0)

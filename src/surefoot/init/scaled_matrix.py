"""The re-parameterisation of WeSaR: a matrix times a trained factor."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScaledMatrix(nn.Module):
    """alpha W, for ``torch.nn.utils.parametrize``; folds by ``remove_parametrizations``.

    Source: Nishida et al. 2024, 2410.05052.

    Args:
        stack: leading dimensions of a stack of matrices (experts), of which each has a factor of
            its own; () for a matrix.

    Attributes:
        alpha: trained, 0-d, or (*stack, 1, 1).
    """

    def __init__(self, stack: Sequence[int] = ()) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones((*stack, 1, 1) if stack else ()))

    def forward(self, matrix: Tensor) -> Tensor:
        """(..., out, in) -> the same."""
        return self.alpha * matrix

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """The W for which alpha W is the matrix: makes ``module.weight = ...`` work."""
        return matrix / self.alpha

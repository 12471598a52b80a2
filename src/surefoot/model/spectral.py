"""sigmaReparam: a matrix as gamma W / sigma(W), sigma its spectral norm and gamma trained.

The spectral norm of what is used is gamma, whatever the optimizer does to W: attention logits
cannot grow faster than a handful of scalars do.

::

    sigma_reparametrise(model.layers)     # every nn.Linear inside
    keep_spectral_norms(model.layers)     # optional: start as the matrices are

Source: Zhai et al. 2023, 2303.06296. In the paper gamma starts at 1, so does it here; the authors'
public code can start it at sigma(W), which :func:`keep_spectral_norms` does.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from surefoot.errors import UsageError

_ROUNDS = 30
"""Of the block power iteration at the first use; with 8 vectors far more than its 1% needs."""


class SigmaReparam(nn.Module):
    """W (rows, columns) -> gamma W / (u W v), u and v the leading singular vectors.

    u and v are buffers. They follow W by one power iteration in each forward pass in training, none
    in evaluation, and no gradient goes through them. At the first use, where they are not set yet,
    they are computed from W by many iterations; a state dict that has them is taken as it is. All
    of it is in fp32 at least, under autocast too.

    Args:
        weight: the matrix; its shape, dtype and device are taken.

    Attributes:
        gamma: 0-d parameter, 1 at first.
        u: (rows,).
        v: (columns,).

    Raises:
        UsageError: at the first use, if W is 0: nothing times 0 has the spectral norm gamma.
    """

    u: Tensor
    v: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.gamma = nn.Parameter(weight.new_ones(()))
        self.register_buffer("u", weight.new_zeros(weight.shape[0]))
        self.register_buffer("v", weight.new_zeros(weight.shape[1]))
        self._looked_at = False

    def forward(self, weight: Tensor) -> Tensor:
        """(rows, columns) -> (rows, columns)."""
        with torch.autocast(weight.device.type, enabled=False):
            exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
            u, v = self._vectors(exact)
            sigma = torch.dot(u, torch.mv(exact, v))
            return (exact * (self.gamma / sigma)).to(weight.dtype)

    def reset_parameters(self) -> None:
        """Set gamma to 1, and compute u and v anew at the next use.

        For a matrix that was set to other values than those u and v were computed from.
        """
        nn.init.ones_(self.gamma)
        self.u.zero_()
        self.v.zero_()
        self._looked_at = False

    @torch.no_grad()
    def _vectors(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        # Copies, since the next forward pass would change what the backward pass needs.
        if not self._looked_at:
            # Once only, since it waits for the device. Memory that to_empty() left is no unit
            # vector either.
            norms = torch.stack([self.u.float().norm(), self.v.float().norm()])
            if not bool(((norms - 1).abs() < 1e-2).all()):
                self._store(*leading_vectors(weight))
            self._looked_at = True
        u, v = self.u.to(weight.dtype, copy=True), self.v.to(weight.dtype, copy=True)
        if self.training:
            u = nn.functional.normalize(torch.mv(weight, v), dim=0)
            v = nn.functional.normalize(torch.mv(weight.T, u), dim=0)
            self._store(u, v)
        return u, v

    def _store(self, u: Tensor, v: Tensor) -> None:
        self.u.copy_(u)
        self.v.copy_(v)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._looked_at = False  # what was loaded may be from before the first use


@torch.no_grad()
def leading_vectors(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The leading left and right singular vectors, (rows,) and (columns,).

    By block power iteration from fixed vectors: the same each time, on the device of the matrix,
    and far cheaper than a decomposition of a large one.

    Args:
        weight: (rows, columns), fp32 or fp64.

    Raises:
        UsageError: if it is 0.
    """
    if not bool(weight.any()):
        raise UsageError(
            f"a matrix of shape {tuple(weight.shape)} is 0 and has no direction: "
            "architecture.sigma_reparam needs an initialisation that draws every matrix"
        )
    count = min(8, *weight.shape)
    start = torch.randn(weight.shape[1], count, generator=torch.Generator().manual_seed(0))
    right = start.to(weight)
    for _ in range(_ROUNDS):
        left = torch.linalg.qr(weight @ right).Q
        right = torch.linalg.qr(weight.T @ left).Q
    inner_u, _, inner_v = torch.linalg.svd(left.T @ weight @ right)
    return left @ inner_u[:, 0], right @ inner_v[0]


def sigma_reparametrise(module: nn.Module) -> None:
    """Put :class:`SigmaReparam` on the weight of every ``nn.Linear`` inside, in place.

    Parameters are then called ``<name>.parametrizations.weight.original`` and ``....0.gamma``;
    ``torch.nn.utils.parametrize.remove_parametrizations`` folds them into plain weights.
    """
    for inner in list(module.modules()):
        if isinstance(inner, nn.Linear):
            # unsafe: what is checked otherwise needs a forward pass, before the weights are set.
            parametrize.register_parametrization(
                inner, "weight", SigmaReparam(inner.weight), unsafe=True
            )


@torch.no_grad()
def keep_spectral_norms(module: nn.Module) -> None:
    """Set every gamma inside to the spectral norm of its matrix: the weights are as without it.

    Call it once the matrices have their first values.

    Raises:
        UsageError: if a matrix is 0.
    """
    for inner in module.modules():
        if not parametrize.is_parametrized(inner, "weight"):
            continue
        weights: Any = inner.parametrizations
        for step in weights.weight:
            if isinstance(step, SigmaReparam):
                matrix = weights.weight.original.detach()
                exact = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
                u, v = leading_vectors(exact)
                step.gamma.copy_(torch.dot(u, torch.mv(exact, v)))

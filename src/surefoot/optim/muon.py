"""Muon for the matrices of blocks, AdamW for everything else, in one optimizer."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.adamw import adamw as torch_adamw

from surefoot.errors import UsageError
from surefoot.optim.build import OPTIMIZERS
from surefoot.optim.lists import (
    BATCH_ON_DEVICE,
    Column,
    kept_where,
    on_host,
    skipped,
    unscale_,
)
from surefoot.optim.moments import MomentOptimizer, Params, adam_settings, gradients, within
from surefoot.recipe import Optimizer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration: steep at 0, so that five steps bring singular values into 0.5-1.5."""

NORM_FLOOR = 1e-7
"""Least norm that a matrix is divided by."""

RateMatch = Literal["rms", "shape"]


@torch.no_grad()
def orthogonalize(
    matrices: Tensor, *, iterations: int = 5, dtype: torch.dtype | None = None
) -> Tensor:
    """U V^T of the singular value decomposition U S V^T, nearly: Newton-Schulz.

    Singular values end between about 0.5 and 1.5, not at 1, which is as good for training; those
    below some 1e-3 of the Frobenius norm end lower.

    Args:
        matrices: (..., r, c); each is treated alone.
        iterations: of X = a X + (b A + c A^2) X with A = X X^T.
        dtype: of the products; bf16 and fp32 serve, fp16 has too small a range. Default: bf16.

    Returns:
        The same shape, in ``dtype``.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/.
    """
    a, b, c = COEFFICIENTS
    x = matrices.to(dtype or torch.bfloat16)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    multiply_add = torch.addmm if x.ndim == 2 else torch.baddbmm
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=NORM_FLOOR)
    for _ in range(iterations):
        gram = x @ x.mT
        polynomial = multiply_add(gram, gram, gram, beta=b, alpha=c)
        x = multiply_add(x, polynomial, x, beta=a)
    return x.mT if tall else x


@torch.no_grad()
def muon(
    params: Column,
    grads: Column,
    momentum_buffers: Column,
    *,
    lr: float | Tensor,
    momentum: float,
    weight_decay: float,
    nesterov: bool = True,
    rate_match: RateMatch = "rms",
    iterations: int = 5,
    dtype: torch.dtype | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One update of Muon, in place.

        M = momentum M + (1 - momentum) g;  G = (1 - momentum) g + momentum M  (Nesterov), else M
        theta = theta (1 - lr wd) - lr s orthogonalize(G)

    ``rate_match`` "rms" is s = 0.2 sqrt(max(r, c)), at which an update has the root mean square of
    AdamW's usual one, 0.2, so that AdamW's rate and decay serve (Liu et al. 2025, 2502.16982);
    "shape" is s = sqrt(max(1, r / c)), of Jordan et al. The momentum is an average, as in
    ``torch.optim.Muon``, where Jordan's is a sum: the scale is lost in the orthogonalization.

    Args:
        params: matrices (r, c) or stacks of them (..., r, c), on one device, of one dtype.
        grads: their gradients; left divided by ``grad_scale``.
        momentum_buffers: momenta M.
        lr: learning rate.
        momentum: decay of the momentum.
        weight_decay: a step and unit of learning rate.
        nesterov: look one step ahead.
        rate_match: how the rate follows the shape.
        iterations: of :func:`orthogonalize`.
        dtype: of its products.
        grad_scale: 0-d, gradients are divided by it; None = 1.
        found_inf: 0-d; where it is not 0 nothing but the gradients changes.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/.
    """
    if not params or skipped(found_inf):
        return
    unscale_(list(grads), grad_scale)
    for batch in _batches(params):
        p, g, m = ([column[i] for i in batch] for column in (params, grads, momentum_buffers))
        with kept_where(found_inf, [*p, *m]):
            torch._foreach_lerp_(m, g, 1 - momentum)
            ahead = torch._foreach_lerp(g, m, momentum) if nesterov else m
            moves = _orthogonalized(list(ahead), iterations, dtype)
            torch._foreach_mul_(p, 1 - lr * weight_decay)
            for parameter, move in zip(p, moves, strict=True):
                rate = lr * _scale(parameter, rate_match)
                if isinstance(rate, float):
                    parameter.add_(move, alpha=-rate)
                else:
                    parameter.sub_(move.to(parameter.dtype) * rate)


def _batches(params: Column) -> list[list[int]]:
    """Numbers of matrices to treat at once: one on a CPU, on a device many of one shape."""
    if on_host(params[0]):
        return [[i] for i in range(len(params))]
    found: dict[tuple[int, ...], list[list[int]]] = {}
    for i, p in enumerate(params):
        lists = found.setdefault(tuple(sorted(p.shape[-2:])), [[]])
        if sum(params[j].numel() for j in lists[-1]) + p.numel() > BATCH_ON_DEVICE and lists[-1]:
            lists.append([])
        lists[-1].append(i)
    return [numbers for lists in found.values() for numbers in lists]


def _orthogonalized(
    matrices: list[Tensor], iterations: int, dtype: torch.dtype | None
) -> list[Tensor]:
    """Of matrices of one shape up to transposition, as one stack if there are several."""
    if len(matrices) == 1:
        return [orthogonalize(matrices[0], iterations=iterations, dtype=dtype)]
    wide = [m.mT if m.shape[-2] > m.shape[-1] else m for m in matrices]
    counts = [math.prod(m.shape[:-2]) for m in wide]
    stack = torch.cat([m.reshape(-1, *m.shape[-2:]) for m in wide])
    done = torch.split(orthogonalize(stack, iterations=iterations, dtype=dtype), counts)
    return [
        (x.mT if m.shape[-2] > m.shape[-1] else x).reshape(m.shape)
        for x, m in zip(done, matrices, strict=True)
    ]


def _scale(parameter: Tensor, rate_match: RateMatch) -> float:
    rows, columns = parameter.shape[-2:]
    if rate_match == "rms":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


class Muon(MomentOptimizer):
    """:func:`muon` on groups with ``method="muon"``, torch's AdamW on those with ``"adamw"``.

    One optimizer with one state: ``momentum_buffer`` of matrices, as in ``torch.optim.Muon`` (which
    takes matrices only), Adam's moments and counters of the rest.

    Args:
        params: parameters, or groups of them with ``method``; without one it is muon's.
        lr: learning rate of both; of a group if it has its own.
        momentum: muon's.
        betas: AdamW's.
        eps: AdamW's.
        weight_decay: a step and unit of learning rate.
        nesterov: look one step ahead.
        rate_match: how muon's rate follows the shape, "rms" or "shape".
        iterations: Newton-Schulz iterations.

    Raises:
        UsageError: if a setting is out of its range, or muon gets a parameter that is no matrix.
    """

    adam_rule = ("first-moment", "direction")
    """What the signals may take for granted, of the part that AdamW updates."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        nesterov: bool = True,
        rate_match: RateMatch = "rms",
        iterations: int = 5,
    ) -> None:
        within("momentum", momentum, 0 <= momentum < 1, "in [0, 1)")
        within("iterations", iterations, iterations >= 1, "at least 1")
        if rate_match not in ("rms", "shape"):
            raise UsageError(f"rate_match = {rate_match!r}: expected 'rms' or 'shape'")
        settings = {
            "method": "muon",
            "momentum": momentum,
            "nesterov": nesterov,
            "rate_match": rate_match,
            "iterations": iterations,
        }
        super().__init__(params, {**adam_settings(lr, betas, eps, weight_decay), **settings})
        for group in self.param_groups:
            for p in group["params"]:
                if group["method"] == "muon" and p.ndim < 2:
                    raise UsageError(
                        f"muon updates matrices, got a parameter of shape {list(p.shape)}: give "
                        "its group method='adamw'"
                    )

    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Call :func:`muon`, or torch's AdamW."""
        if group["method"] == "adamw":
            self._adamw(group, params, flags)
            return
        for p in params:
            if "momentum_buffer" not in self.state[p]:
                zeros = torch.zeros_like(p, memory_format=torch.preserve_format)
                self.state[p]["momentum_buffer"] = zeros
        names = ("lr", "momentum", "weight_decay", "nesterov", "rate_match", "iterations")
        muon(
            params,
            gradients(params),
            [self.state[p]["momentum_buffer"] for p in params],
            **{name: group[name] for name in names},
            **flags,
        )

    def _adamw(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        grads, exp_avgs, exp_avg_sqs, steps = self.columns(params)
        update: Callable[..., None] = torch_adamw
        update(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            [],
            steps,
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=beta1,
            beta2=beta2,
            **{name: group[name] for name in ("lr", "eps", "weight_decay")},
            **flags,
        )


@OPTIMIZERS.register("muon")
def _build(groups: list[dict[str, Any]], optimizer: Optimizer) -> Muon:
    return Muon(
        [{**group, "method": "muon" if group["name"] == "blocks" else "adamw"} for group in groups],
        lr=optimizer.learning_rate,
        momentum=optimizer.momentum,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
    )

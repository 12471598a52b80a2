"""LaProp: the gradient is normalised first and averaged then."""

from typing import Any

import torch
from torch import Tensor

from surefoot.optim.build import OPTIMIZERS
from surefoot.optim.lists import (
    Column,
    add_ratio_,
    counts,
    fresh,
    kept_where,
    on_host,
    scalars,
    skipped,
    units,
)
from surefoot.optim.moments import MomentOptimizer, Params, adam_settings, floor_of
from surefoot.recipe import Optimizer


@torch.no_grad()
def laprop(
    params: Column,
    grads: Column,
    exp_avgs: Column,
    exp_avg_sqs: Column,
    steps: Column,
    *,
    lr: float | Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One update of LaProp, in place.

        v = beta2 v + (1 - beta2) g^2
        m = beta1 m + (1 - beta1) lr g / (sqrt(v / (1 - beta2^t)) + eps)
        theta = theta (1 - lr wd) - m / (1 - beta1^t)

    A gradient is divided by the second moment of its own step, so an old momentum never meets a
    newer, smaller v: the update stays below lr / sqrt(1 - beta2) whatever beta1 is, where Adam's
    grows without bound once beta1 > sqrt(beta2).

    The rate is averaged with the gradient, as in the authors' code: each gradient keeps the rate
    that it came at. Their bias correction differs where the rate changes (it divides by an average
    of rates); the paper has the rate outside. At a constant rate the three are one.

    Args:
        params: parameters of any shape, all on one device and of one dtype.
        grads: their gradients; left divided by ``grad_scale``.
        exp_avgs: momenta m, in units of the parameter.
        exp_avg_sqs: second moments.
        steps: 0-d float32 counters of updates made, on the device of the parameters.
        lr: learning rate.
        beta1: decay of the momentum.
        beta2: decay of the second moment.
        eps: added to the root of the bias-corrected second moment.
        weight_decay: a step and unit of learning rate.
        grad_scale: 0-d, gradients are divided by it; None = 1.
        found_inf: 0-d; where it is not 0 nothing but the gradients changes.

    Source: Ziyin, Wang and Ueda 2020, 2002.04839.
    """
    if not params or skipped(found_inf):
        return
    count = counts(steps)
    root2 = (1 - beta2**count).sqrt()
    floors = scalars(floor_of(eps, root2))
    shares = scalars((1 - beta1) * lr * root2)
    keeps = scalars(1 - lr * weight_decay * torch.ones_like(count))
    factors = scalars(-1 / (1 - beta1**count))
    for numbers, parts in units((grads, params, exp_avgs, exp_avg_sqs)):
        changed = [x for part in parts for column in part[1:] for x in column]
        with kept_where(found_inf, changed):
            for g, p, m, v in fresh(parts, grad_scale):
                torch._foreach_mul_(v, beta2)
                torch._foreach_addcmul_(v, g, g, 1 - beta2)
                under = list(torch._foreach_sqrt(v))
                torch._foreach_add_(under, floors[numbers])
                torch._foreach_mul_(m, beta1)
                add_ratio_(m, g, under, shares[numbers])
                torch._foreach_mul_(p, keeps[numbers])
                torch._foreach_add_(p, torch._foreach_mul(m, factors[numbers]))
    if found_inf is None or on_host(found_inf):
        torch._foreach_add_(list(steps), 1.0)
    else:  # a list: one 0-d tensor would be read by the host
        torch._foreach_add_(list(steps), [(found_inf == 0).float()] * len(steps))


class LaProp(MomentOptimizer):
    """:func:`laprop` as a torch optimizer; rate, betas and eps are those of the authors' code.

    Args:
        params: parameters or groups of them.
        lr: learning rate.
        betas: decays of the momentum and of the second moment.
        eps: added to the root of the second moment.
        weight_decay: a step and unit of learning rate.

    Raises:
        UsageError: if a setting is out of its range.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 4e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-15,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, adam_settings(lr, betas, eps, weight_decay))

    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Call :func:`laprop`."""
        self.call(laprop, group, (params, *self.columns(params)), flags)


@OPTIMIZERS.register("laprop")
def _build(groups: list[dict[str, Any]], optimizer: Optimizer) -> LaProp:
    return LaProp(
        groups,
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
    )

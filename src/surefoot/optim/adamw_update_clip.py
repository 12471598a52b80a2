"""AdamW whose update of a tensor has a largest root mean square."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from surefoot.optim.build import OPTIMIZERS
from surefoot.optim.fused import fused_adamw_
from surefoot.optim.lists import (
    Column,
    counts,
    fresh,
    norms,
    of_tensors,
    root_mean_square,
    scalars,
    skipped,
    units,
)
from surefoot.optim.moments import (
    MomentOptimizer,
    Params,
    adam_settings,
    floor_of,
    next_second,
    within,
)
from surefoot.recipe import Optimizer


@torch.no_grad()
def adamw_update_clip(
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
    update_clip: float = 1.0,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One update of AdamW with AdaFactor's update clipping, in place.

    With AdamW's update of a tensor, U = mhat / (sqrt(vhat) + eps):

        theta = theta (1 - lr wd) - lr U / max(1, RMS(U) / update_clip)

    The decay is not scaled down. Unlike AdaFactor's, U holds the momentum, so its RMS is near
    sqrt((1 - beta1) / (1 + beta1)) (0.23 at 0.9) while gradients are independent over time, and
    never above (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)) once bias correction is over:
    1.17 at (0.9, 0.95), 7.3 at (0.9, 0.999). At the former a limit of 1 hardly ever acts.

    Args:
        params: parameters of any shape, all on one device and of one dtype.
        grads: their gradients; left divided by ``grad_scale``.
        exp_avgs: first moments.
        exp_avg_sqs: second moments.
        steps: 0-d float32 counters of updates made, on the device of the parameters.
        lr: learning rate.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to sqrt(vhat).
        weight_decay: a step and unit of learning rate.
        update_clip: largest RMS of U that is not scaled down; ``math.inf`` is AdamW.
        grad_scale: 0-d, gradients are divided by it; None = 1.
        found_inf: 0-d; where it is not 0 nothing but the gradients changes.

    Source: Shazeer and Stern 2018, 1804.04235, for the clipping.
    """
    if not params or skipped(found_inf):
        return
    count = counts(steps)
    root2 = (1 - beta2**count).sqrt()
    floors = scalars(floor_of(eps, root2))
    sizes: list[Tensor] = []
    for numbers, parts in units((grads, exp_avgs, exp_avg_sqs)):
        found: list[Sequence[Tensor]] = []
        for g, m, v in fresh(parts, grad_scale):
            update = torch._foreach_lerp(m, g, 1 - beta1)
            under = next_second(g, v, beta2)
            torch._foreach_sqrt_(under)
            torch._foreach_add_(under, floors[numbers])
            torch._foreach_div_(update, under)
            found.append(norms(update))
        sizes += of_tensors(found)
    rms = root_mean_square(sizes, params) * root2 / (1 - beta1**count)
    rates = lr / (rms / update_clip).clamp(min=1)
    fused_adamw_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        steps,
        rates=rates,
        decays=lr * weight_decay * torch.ones_like(rates),
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        found_inf=found_inf,
    )


class AdamWUpdateClip(MomentOptimizer):
    """:func:`adamw_update_clip` as a torch optimizer.

    Args:
        params: parameters or groups of them.
        lr: learning rate.
        betas: decays of the moments.
        eps: added to the root of the second moment.
        weight_decay: a step and unit of learning rate.
        update_clip: largest RMS of an update that is not scaled down.

    Raises:
        UsageError: if a setting is out of its range.
    """

    adam_rule = ("first-moment", "direction")
    """What the signals may take for granted; the size differs by tensor."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        update_clip: float = 1.0,
    ) -> None:
        within("update_clip", update_clip, update_clip > 0, "above 0")
        settings = adam_settings(lr, betas, eps, weight_decay)
        super().__init__(params, {**settings, "update_clip": update_clip})

    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Call :func:`adamw_update_clip`."""
        self.call(adamw_update_clip, group, (params, *self.columns(params)), flags, "update_clip")


@OPTIMIZERS.register("adamw-update-clip")
def _build(groups: list[dict[str, Any]], optimizer: Optimizer) -> AdamWUpdateClip:
    return AdamWUpdateClip(
        groups,
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        update_clip=optimizer.update_clip,
    )

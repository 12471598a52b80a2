"""AdamW that takes smaller steps for a tensor whose second moment lags behind its gradient."""

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
def stable_adamw(
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
    """One update of StableAdamW, in place.

    With the bias-corrected second moment u after it took in the gradient g, a tensor's

        RMS_t = sqrt(mean(g^2 / max(u, eps^2)))

    is near 1 while u is up to date. The tensor's rate is lr / max(1, RMS_t / update_clip), for the
    weight decay as well as for the step: theta = theta (1 - rate wd) - rate m / (sqrt(u) + eps).

    The moments are stored as Adam's, without bias correction, and corrected where they are used;
    the published code corrects beta1 and beta2 before it averages, which is the same number.

    Args:
        params: parameters of any shape, all on one device and of one dtype.
        grads: their gradients; left divided by ``grad_scale``.
        exp_avgs: first moments.
        exp_avg_sqs: second moments.
        steps: 0-d float32 counters of updates made, on the device of the parameters.
        lr: learning rate.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to sqrt(u).
        weight_decay: a step and unit of the tensor's learning rate.
        update_clip: largest RMS_t that leaves the rate as it is.
        grad_scale: 0-d, gradients are divided by it; None = 1.
        found_inf: 0-d; where it is not 0 nothing but the gradients changes.

    Source: Wortsman et al. 2023, 2304.13013.
    """
    if not params or skipped(found_inf):
        return
    root2 = (1 - beta2 ** counts(steps)).sqrt()
    floors = scalars(floor_of(eps, root2))
    ratios: list[Tensor] = []
    for numbers, parts in units((grads, exp_avg_sqs)):
        found: list[Sequence[Tensor]] = []
        for g, v in fresh(parts, grad_scale):
            # g / max(sqrt(v), eps sqrt(c2)): eps^2 would not be a float32 number below 1e-22.
            least = next_second(g, v, beta2)
            torch._foreach_sqrt_(least)
            torch._foreach_clamp_min_(least, floors[numbers])
            found.append(norms(torch._foreach_div(g, least)))
        ratios += of_tensors(found)
    rms = root_mean_square(ratios, params) * root2
    rates = lr / (rms / update_clip).clamp(min=1)
    fused_adamw_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        steps,
        rates=rates,
        decays=rates * weight_decay,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        found_inf=found_inf,
    )


class StableAdamW(MomentOptimizer):
    """:func:`stable_adamw` as a torch optimizer; defaults are those of its public code.

    It replaces gradient clipping: switch that off beside it, or it acts first.

    Args:
        params: parameters or groups of them.
        lr: learning rate.
        betas: decays of the moments.
        eps: added to the root of the second moment.
        weight_decay: a step and unit of learning rate.
        update_clip: largest RMS_t that leaves a tensor's rate as it is.

    Raises:
        UsageError: if a setting is out of its range.
    """

    adam_rule = ("first-moment", "direction")
    """What the signals may take for granted; the size differs by tensor."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-6,
        weight_decay: float = 0.2,
        update_clip: float = 1.0,
    ) -> None:
        within("update_clip", update_clip, update_clip > 0, "above 0")
        settings = adam_settings(lr, betas, eps, weight_decay)
        super().__init__(params, {**settings, "update_clip": update_clip})

    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Call :func:`stable_adamw`."""
        self.call(stable_adamw, group, (params, *self.columns(params)), flags, "update_clip")


@OPTIMIZERS.register("stable-adamw")
def _build(groups: list[dict[str, Any]], optimizer: Optimizer) -> StableAdamW:
    return StableAdamW(
        groups,
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        update_clip=optimizer.update_clip,
    )

"""SPAM: Adam that clips single elements and forgets its moments now and then."""

import math
from typing import Any

import torch
from torch import Tensor

from surefoot.optim.build import OPTIMIZERS
from surefoot.optim.fused import fused_adamw_
from surefoot.optim.lists import (
    Column,
    Scalars,
    counts,
    fresh,
    on_host,
    scalars,
    skipped,
    units,
)
from surefoot.optim.moments import MomentOptimizer, Params, adam_settings, within
from surefoot.recipe import Optimizer

UNLIMITED = 3e38
"""A limit that no float32 gradient reaches; finite, so that 0 times it is 0."""


@torch.no_grad()
def spam(
    params: Column,
    grads: Column,
    exp_avgs: Column,
    exp_avg_sqs: Column,
    steps: Column,
    resets: Column,
    *,
    lr: float | Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    element_clip: float = 5000.0,
    reset_every: int = 500,
    reset_warmup: int = 150,
    clip_after: int = 20,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One update of SPAM without sparse momentum, in place.

    An element with g^2 > element_clip v, v being the stored second moment of the step before, is
    taken as sign(g) sqrt(element_clip v); not in the first ``clip_after`` updates after the start
    or a reset, and not where v = 0, or an element that never had a gradient could not get one. Then
    Adam's update, with decoupled weight decay.

    After ``reset_every`` updates the moments begin at 0 again, and the step counter with them, so
    that their bias correction does too. (Without that, as in some public code, the first updates
    after a reset are (1 - beta1) / sqrt(1 - beta2) = 3.2 times too large at (0.9, 0.999).) The rate
    then climbs back over ``reset_warmup`` updates, by 1 - 0.99 (1 + cos(pi k / reset_warmup)) / 2
    at k = 0, 1, ...: as at the start of training, the first corrected updates are the bare signs
    of gradients. Weight decay goes on at the full rate.

    Args:
        params: parameters of any shape, all on one device and of one dtype.
        grads: their gradients; left divided by ``grad_scale`` and clipped.
        exp_avgs: first moments.
        exp_avg_sqs: second moments.
        steps: 0-d float32 counters of updates made since the last reset.
        resets: 0-d float32 counters of resets.
        lr: learning rate.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to the root of the bias-corrected second moment.
        weight_decay: a step and unit of learning rate.
        element_clip: largest g^2 / v.
        reset_every: updates between two resets; fewer than 100 are reported to be bad.
        reset_warmup: updates of the re-warm; 0 = none.
        clip_after: updates after a start or reset that are not clipped.
        grad_scale: 0-d, gradients are divided by it; None = 1.
        found_inf: 0-d; where it is not 0 nothing but the gradients changes.

    Source: Huang et al. 2025, 2501.06842.
    """
    if not params or skipped(found_inf):
        return
    _count_resets(steps, resets, reset_every, found_inf)
    count = counts(steps)
    rates = lr * _rewarm(count, torch.stack(list(resets)), reset_warmup)
    slack = scalars(UNLIMITED * (count <= clip_after))
    for numbers, parts in units((grads, exp_avgs, exp_avg_sqs)):
        for g, m, v in fresh(parts, grad_scale):
            _forget(count[numbers], m, v)
            _clip_(g, v, element_clip, slack[numbers])
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


def _count_resets(
    steps: Column, resets: Column, reset_every: int, found_inf: Tensor | None
) -> None:
    """Set counters that are through back to 0, unless the update is to be left out."""
    count = torch.stack(list(steps))
    due = count >= reset_every
    if found_inf is not None and not on_host(found_inf):
        due = due & (found_inf == 0)
    torch._foreach_sub_(list(steps), list((count * due).unbind()))
    torch._foreach_add_(list(resets), list(due.to(count.dtype).unbind()))


def _rewarm(count: Tensor, resets: Tensor, length: int) -> Tensor:
    """The factor on the rate, (k,) float64."""
    through = ((count - 1) / max(1, length)).clamp(max=1 if length else 0)
    factor = 1 - 0.99 * (1 + (math.pi * through).cos()) / 2
    return torch.where((resets > 0) & (count <= length), factor, 1.0)


def _forget(count: Tensor, m: list[Tensor], v: list[Tensor]) -> None:
    """Zero moments before a first update; on a device the host cannot know whether it is one."""
    if on_host(count):
        if count[0] == 1:
            torch._foreach_zero_(m)
            torch._foreach_zero_(v)
        return
    zero = m[0].new_zeros(())
    for first, *moments in zip((count == 1).unbind(), m, v, strict=True):
        for moment in moments:
            torch.where(first, zero, moment, out=moment)


def _clip_(g: list[Tensor], v: list[Tensor], element_clip: float, slack: Scalars) -> None:
    """Bring gradients in place within sqrt(element_clip v) + slack."""
    if isinstance(slack[0], float) and slack[0] > 0:
        return
    limit = list(torch._foreach_mul(v, element_clip))
    torch._foreach_sqrt_(limit)
    torch._foreach_add_(limit, slack)
    for most, second in zip(limit, v, strict=True):
        # As numbers, for torch is slow at booleans on a CPU.
        unlimited = min(UNLIMITED, torch.finfo(second.dtype).max)
        most.add_(torch.eq(second, 0, out=torch.empty_like(second)), alpha=unlimited)
    torch._foreach_minimum_(g, limit)
    torch._foreach_neg_(limit)
    torch._foreach_maximum_(g, limit)


class SPAM(MomentOptimizer):
    """:func:`spam` as a torch optimizer; defaults are those of its public code.

    Args:
        params: parameters or groups of them.
        lr: learning rate.
        betas: decays of the moments.
        eps: added to the root of the second moment.
        weight_decay: a step and unit of learning rate.
        element_clip: largest g^2 / v of an element.
        reset_every: updates between two resets of the moments.
        reset_warmup: updates over which the rate climbs back after a reset.
        clip_after: updates after a start or reset that are not clipped.

    Raises:
        UsageError: if a setting is out of its range.
    """

    adam_rule = ("direction",)
    """What the signals may take for granted; m holds clipped gradients."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        element_clip: float = 5000.0,
        reset_every: int = 500,
        reset_warmup: int = 150,
        clip_after: int = 20,
    ) -> None:
        within("element_clip", element_clip, element_clip > 0, "above 0")
        within("reset_every", reset_every, reset_every >= 1, "at least 1")
        within("reset_warmup", reset_warmup, reset_warmup >= 0, "at least 0")
        within("clip_after", clip_after, clip_after >= 0, "at least 0")
        settings = {
            "element_clip": element_clip,
            "reset_every": reset_every,
            "reset_warmup": reset_warmup,
            "clip_after": clip_after,
        }
        super().__init__(params, {**adam_settings(lr, betas, eps, weight_decay), **settings})

    def update(self, group: dict[str, Any], params: list[Tensor], flags: dict[str, Any]) -> None:
        """Call :func:`spam`."""
        columns = (params, *self.columns(params), self.counters(params, "resets"))
        own = ("element_clip", "reset_every", "reset_warmup", "clip_after")
        self.call(spam, group, columns, flags, *own)


@OPTIMIZERS.register("spam")
def _build(groups: list[dict[str, Any]], optimizer: Optimizer) -> SPAM:
    return SPAM(
        groups,
        lr=optimizer.learning_rate,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        element_clip=optimizer.element_clip,
        reset_every=optimizer.reset_every,
        reset_warmup=optimizer.reset_warmup,
    )

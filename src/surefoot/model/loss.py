"""The loss as sums over counted tokens, with the log-sum-exp of the logits always measured.

Cross-entropy and z-loss share one log-sum-exp. It is computed block of rows by block of rows, so
that temporaries stay in the cache; what is kept for the backward pass is the logits themselves and
one number a token, and the gradient of both terms is written once, in place. Against
``torch.nn.functional.cross_entropy`` this needs less time and memory although it measures more.

Source of the z-loss: Chowdhery et al. 2022, 2204.02311.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

# N tokens, V = vocabulary.

_BLOCK = {"cpu": 2**18}
"""Logits worked on at once: about a second-level cache. Devices of many cores take 2**26."""


class LossSums(NamedTuple):
    """Sums over the counted tokens, 0-d fp32 tensors on the device; divide by ``tokens``.

    Sums, not means, so that micro-batches and ranks with unequal counts add up exactly.

    Attributes:
        cross_entropy: -log p(target), nats; differentiable.
        tokens: how many were counted.
        log_z: the signed log-sum-exp of the logits, nats.
        log_z_squared: its square; differentiable, times its weight it is the z-loss.
        log_z_abs_max: the largest |log-sum-exp|, not a sum; 0 if nothing was counted.
    """

    cross_entropy: Tensor
    tokens: Tensor
    log_z: Tensor
    log_z_squared: Tensor
    log_z_abs_max: Tensor


def loss_sums(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> LossSums:
    """Cross-entropy and log-sum-exp of logits, summed over counted tokens.

    ``(s.cross_entropy + weight * s.log_z_squared) / s.tokens`` is the usual training loss. A logit
    that is NaN makes the sums NaN. Differentiable twice, the second time with plain operations.

    Args:
        logits: (..., V) of any floating dtype; the sums are made in fp32 (fp64 for fp64).
        targets: (...) int64 classes.
        ignore_index: the target of tokens that do not count.
    """
    flat = logits.reshape(-1, logits.shape[-1])
    sums = _LossSums.apply(flat, targets.reshape(-1), ignore_index)  # type: ignore[no-untyped-call]
    return LossSums(*sums)


class _LossSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, ignore_index: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        exact = torch.promote_types(logits.dtype, torch.float32)
        counted = targets != ignore_index
        classes = torch.where(counted, targets, 0)
        blocks = torch.split(logits, _rows(logits))
        log_z = torch.cat([torch.logsumexp(block.to(exact), dim=-1) for block in blocks])
        chosen = logits.gather(1, classes[:, None]).squeeze(1).to(exact)
        ctx.save_for_backward(logits, classes, counted, log_z)
        cross_entropy = torch.where(counted, log_z - chosen, 0).sum()
        counted_z = torch.where(counted, log_z, 0)
        tokens = counted.sum(dtype=exact)
        sum_z, largest = counted_z.sum(), counted_z.abs().amax()
        ctx.mark_non_differentiable(tokens, sum_z, largest)
        return cross_entropy, tokens, sum_z, counted_z.square().sum(), largest

    @staticmethod
    def backward(
        ctx: Any, of_cross_entropy: Tensor, _t: Tensor, _z: Tensor, of_square: Tensor, _m: Tensor
    ) -> tuple[Tensor, None, None]:
        logits, classes, counted, log_z = ctx.saved_tensors
        # d cross_entropy = p - onehot(target), d log_z² = 2 log_z p, with p = exp(logits - log_z).
        second_order = torch.is_grad_enabled()
        if second_order:  # what was saved is no function of the logits then
            log_z = torch.logsumexp(logits.to(log_z.dtype), dim=-1)
        a, b = counted * of_cross_entropy, counted * (2 * of_square * log_z)
        # At the target p - 1 would cancel where p is near 1, and in bf16 be lost.
        log_p = logits.gather(1, classes[:, None]) - log_z[:, None]
        at_target = a[:, None] * log_p.expm1() + b[:, None] * log_p.exp()
        if second_order:
            grad = (logits - log_z[:, None]).exp() * (a + b)[:, None]
            return grad.scatter(1, classes[:, None], at_target), None, None
        grad = _scaled_softmax(logits, log_z, a + b)
        return grad.scatter_(1, classes[:, None], at_target.to(grad.dtype)), None, None


def _scaled_softmax(logits: Tensor, log_z: Tensor, factor: Tensor) -> Tensor:
    """exp(logits - log_z) · factor by rows, made in fp32 at least, in the dtype of the logits."""
    result = torch.empty_like(logits)
    rows = _rows(logits)
    for out, x, z, f in zip(
        *(torch.split(t, rows) for t in (result, logits, log_z[:, None], factor[:, None])),
        strict=True,
    ):
        # In place where the dtypes agree; bf16 and fp16 go through one block of fp32.
        work = torch.sub(x, z, out=out) if x.dtype == z.dtype else x - z
        work.exp_().mul_(f)
        if work is not out:
            out.copy_(work)
    return result


def _rows(logits: Tensor) -> int:
    return max(1, _BLOCK.get(logits.device.type, 2**26) // logits.shape[-1])

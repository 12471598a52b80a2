"""torch's fused AdamW with a rate and a decay for each tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from surefoot.optim.lists import Column, on_host


def fused_adamw_(
    params: Column,
    grads: Column,
    exp_avgs: Column,
    exp_avg_sqs: Column,
    steps: Column,
    *,
    rates: Tensor,
    decays: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    found_inf: Tensor | None,
) -> None:
    """One update: theta = theta (1 - decay) - rate AdamW's update; counts the steps.

    One call of the kernel for all tensors of the same rate and decay; on a device, where these are
    not known to the host, one a tensor.

    Args:
        params: parameters, all on one device and of one dtype, dense.
        grads: their gradients.
        exp_avgs: first moments.
        exp_avg_sqs: second moments.
        steps: 0-d float32 counters of updates made.
        rates: float64 (P,), on the device.
        decays: float64 (P,), likewise.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to the root of the bias-corrected second moment.
        found_inf: 0-d; where it is not 0 nothing changes.
    """
    update: Callable[..., None] = adamw
    options: dict[str, Any] = {"amsgrad": False, "maximize": False, "fused": True}
    options |= {"beta1": beta1, "beta2": beta2, "eps": eps, "found_inf": found_inf}
    columns = (params, grads, exp_avgs, exp_avg_sqs)
    if on_host(rates):
        alike: dict[tuple[float, float], list[int]] = {}
        for i, pair in enumerate(zip(rates.tolist(), decays.tolist(), strict=True)):
            alike.setdefault(pair, []).append(i)
        for (rate, decay), numbers in alike.items():
            # The kernel decays by rate times weight_decay.
            options |= {"lr": rate, "weight_decay": decay / rate if rate else 0.0}
            chosen = [[column[i] for i in numbers] for column in columns]
            update(*chosen, [], [steps[i] for i in numbers], **options)
        return
    keep = 1 - decays
    if found_inf is not None:
        keep = torch.where(found_inf > 0, 1.0, keep)  # times 1 leaves all bits as they are
    torch._foreach_mul_(list(params), list(keep.unbind()))
    for i, own in enumerate(rates.float().unbind()):
        chosen = [[column[i]] for column in columns]
        update(*chosen, [], [steps[i]], lr=own, weight_decay=0.0, **options)

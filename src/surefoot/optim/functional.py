"""Optimizers as functions of lists of tensors, in place.

::

    from surefoot.optim import functional
    functional.stable_adamw(
        params, grads, exp_avgs, exp_avg_sqs, steps,  # lists; steps are 0-d float32 tensors
        lr=2e-3, beta1=0.9, beta2=0.99, eps=1e-6, weight_decay=0.2,
        grad_scale=None, found_inf=None,              # 0-d tensors: nothing waits for the device
    )

AdamW itself is ``torch.optim.adamw.adamw(..., fused=True)``.
"""

from surefoot.optim.adamw_update_clip import adamw_update_clip
from surefoot.optim.laprop import laprop
from surefoot.optim.muon import muon, orthogonalize
from surefoot.optim.spam import spam
from surefoot.optim.stable_adamw import stable_adamw

__all__ = ["adamw_update_clip", "laprop", "muon", "orthogonalize", "spam", "stable_adamw"]

"""AdamW on torch's fused path, schedules, clipping, and an update that never takes in a NaN.

::

    from surefoot.optim import build_optimizer, clip_factor, guarded_step, learning_rate
    optimizer = build_optimizer(model, recipe.optimizer)
    for step in range(1, recipe.schedule.steps + 1):
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        ...                                          # forward, backward
        factor = clip_factor(norm, recipe.optimizer.clip_norm)
        guarded_step(optimizer, found_inf=found_inf, grad_divisor=1 / factor)

With fp16, ``scaler = LossScaler(65536.0)``: backward on ``loss * scaler.scale``, the norm of the
*unscaled* gradient, ``grad_divisor=scaler.scale / factor``, then ``scaler.update(found_inf)``.
"""

from surefoot.optim.clip import clip_factor
from surefoot.optim.groups import build_optimizer, parameter_groups
from surefoot.optim.guarded import guarded_step
from surefoot.optim.scaler import LossScaler
from surefoot.optim.schedule import learning_rate

__all__ = [
    "LossScaler",
    "build_optimizer",
    "clip_factor",
    "guarded_step",
    "learning_rate",
    "parameter_groups",
]

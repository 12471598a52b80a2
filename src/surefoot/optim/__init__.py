"""Optimizers, schedules, clipping, skipping, and an update that never takes in a NaN.

::

    from surefoot.optim import build_clipper, build_optimizer, guarded_step, learning_rate
    optimizer = build_optimizer(model, recipe.optimizer)   # the name picks one of OPTIMIZERS
    clipper = build_clipper(recipe.optimizer, list(model.parameters()))
    for step in range(1, recipe.schedule.steps + 1):
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["rate_factor"]
        ...                                          # forward, backward
        factor = clipper(norm)
        guarded_step(optimizer, found_inf=found_inf, grad_divisor=1 / factor)

With fp16, ``scaler = LossScaler(65536.0)``: backward on ``loss * scaler.scale``, the norm of the
*unscaled* gradient, ``clipper(norm, scaler.scale)``, ``grad_divisor=scaler.scale / factor``, then
``scaler.update(found_inf)``.

Each optimizer of surefoot's own is a class here and a function of lists of tensors in
``surefoot.optim.functional``.
"""

from surefoot.optim.adamw_update_clip import AdamWUpdateClip
from surefoot.optim.build import OPTIMIZERS, build_optimizer
from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping import CLIPPERS, Clipper, build_clipper
from surefoot.optim.groups import parameter_groups
from surefoot.optim.guarded import guarded_step
from surefoot.optim.laprop import LaProp
from surefoot.optim.muon import Muon
from surefoot.optim.qk_clip import QueryKey, qk_clip_, query_key_pairs
from surefoot.optim.scaler import LossScaler
from surefoot.optim.schedule import learning_rate
from surefoot.optim.shallow import scale_shallow_gradients
from surefoot.optim.skip import SpikeSkip
from surefoot.optim.spam import SPAM
from surefoot.optim.stable_adamw import StableAdamW

__all__ = [
    "CLIPPERS",
    "OPTIMIZERS",
    "SPAM",
    "AdamWUpdateClip",
    "Clipper",
    "LaProp",
    "LossScaler",
    "Muon",
    "QueryKey",
    "SpikeSkip",
    "StableAdamW",
    "build_clipper",
    "build_optimizer",
    "clip_factor",
    "guarded_step",
    "learning_rate",
    "parameter_groups",
    "qk_clip_",
    "query_key_pairs",
    "scale_shallow_gradients",
]

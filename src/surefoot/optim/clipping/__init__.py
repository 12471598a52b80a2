"""What limits the gradient before the update: a file a method, by the name the recipe gives it.

::

    from surefoot.optim.clipping import build_clipper
    clipper = build_clipper(recipe.optimizer, list(model.parameters()))
    factor = clipper(norm)                            # norm: 0-d, of the unscaled gradient
    guarded_step(optimizer, found_inf=found_inf, grad_divisor=1 / factor)
    clipper.load_state_dict(clipper.state_dict())     # its history goes with the checkpoint

With a loss scale still in the gradients, ``clipper(norm, scaler.scale)`` and
``grad_divisor=scaler.scale / factor``.
"""

from surefoot.optim.clipping.adagc import AdaGC
from surefoot.optim.clipping.agc import AGC
from surefoot.optim.clipping.autoclip import AutoClip
from surefoot.optim.clipping.base import CLIPPERS, Clipper, Target, build_clipper
from surefoot.optim.clipping.plain import ClipNorm, NoClip
from surefoot.optim.clipping.zclip import ZClip

__all__ = [
    "AGC",
    "CLIPPERS",
    "AdaGC",
    "AutoClip",
    "ClipNorm",
    "Clipper",
    "NoClip",
    "Target",
    "ZClip",
    "build_clipper",
]

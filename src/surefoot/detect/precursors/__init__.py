"""Precursors: symptoms that come before the loss shows trouble, one file each.

``ALL`` holds every one that was tried, ``DEFAULT`` the names of those that help, as
``benchmarks/precursors.py`` measures them; see :mod:`surefoot.detect.early` for their use.
"""

from collections.abc import Callable

from surefoot.detect.precursors.attention_growth import AttentionGrowth
from surefoot.detect.precursors.base import Precursor, Sign
from surefoot.detect.precursors.grad_cosine import GradCosine
from surefoot.detect.precursors.grad_growth import GradGrowth
from surefoot.detect.precursors.log_z_drift import LogZDrift
from surefoot.detect.precursors.loss_scale import LossScaleDecline
from surefoot.detect.precursors.second_moment import SecondMoment
from surefoot.detect.precursors.slowing import CriticalSlowing
from surefoot.detect.precursors.sudden import Sudden
from surefoot.detect.precursors.update_growth import UpdateGrowth

ALL: dict[str, Callable[[], Precursor]] = {
    AttentionGrowth.name: AttentionGrowth,
    LogZDrift.name: LogZDrift,
    SecondMoment.name: SecondMoment,
    UpdateGrowth.name: UpdateGrowth,
    GradGrowth.name: GradGrowth,
    Sudden.name: Sudden,
    LossScaleDecline.name: LossScaleDecline,
    GradCosine.name: GradCosine,
    CriticalSlowing.name: CriticalSlowing,
}
DEFAULT = (
    "attention-growth",
    "log-z-drift",
    "second-moment",
    "update-growth",
    "gradient-growth",
    "sudden",
)

__all__ = ["ALL", "DEFAULT", "Precursor", "Sign"]

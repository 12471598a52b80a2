"""The rules of other trainers and monitors, re-implemented from their formulas alone.

::

    from baselines import make_all

    for baseline in make_all(total_steps=1000):
        flagged = [record.step for record in records if baseline.update(record)]

Thresholds are the originals' defaults; where a rule is off by default, the value in use is stated
in ``setting``. Where a trainer checks for NaN beside the rule, that check is counted for it.
"""

from .flagscale import FlagScale
from .levanter import Levanter
from .lightning import Lightning
from .llm_c import LlmC
from .llm_foundry import LlmFoundry
from .megatron import Megatron
from .metaseq import Metaseq
from .msprobe import Msprobe
from .olmo_core import OlmoCore
from .protocol import Baseline
from .zclip import ZClip

__all__ = [
    "Baseline",
    "FlagScale",
    "Levanter",
    "Lightning",
    "LlmC",
    "LlmFoundry",
    "Megatron",
    "Metaseq",
    "Msprobe",
    "OlmoCore",
    "ZClip",
    "make_all",
]


def make_all(total_steps: int) -> list[Baseline]:
    """Every baseline, fresh.

    Args:
        total_steps: planned length of the run, by which one of them sizes its window.
    """
    return [
        OlmoCore(),
        Levanter(),
        LlmFoundry(total_steps),
        Megatron(),
        Megatron(large_grads=True),
        Lightning(),
        FlagScale(),
        Metaseq(),
        LlmC(),
        ZClip(),
        Msprobe(),
    ]

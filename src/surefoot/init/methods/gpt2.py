"""GPT-2's initialisation."""

from dataclasses import dataclass
from typing import ClassVar

from surefoot.init.method import METHODS
from surefoot.init.methods.single import SingleStd
from surefoot.recipe.init import InitMethod


@METHODS.register("gpt2")
@dataclass(frozen=True, kw_only=True)
class GPT2(SingleStd):
    """All 0.02, outputs over sqrt(2 layers), positions 0.01 (Radford et al. 2019).

    Attributes:
        position_std: 0.01 in the released code (openai/gpt-2, src/model.py); transformers draws
            positions with 0.02, as all else.
    """

    name: ClassVar[InitMethod] = "gpt2"

    position_std: float | None = 0.01

"""Megatron-LM's initialisation."""

from dataclasses import dataclass
from typing import ClassVar

from surefoot.init.method import METHODS
from surefoot.init.methods.single import SingleStd
from surefoot.recipe.init import InitMethod


@METHODS.register("megatron")
@dataclass(frozen=True, kw_only=True)
class Megatron(SingleStd):
    """All 0.02, outputs over sqrt(2 layers) (Shoeybi et al. 2019, 1909.08053).

    Megatron-LM's option ``embedding_init_method_std`` is ``embedding_std``; its help names values
    near 1 against loss spikes.
    """

    name: ClassVar[InitMethod] = "megatron"

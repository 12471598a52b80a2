"""What Spike No More compares with: the embedding as small as the matrices."""

from dataclasses import dataclass
from typing import ClassVar

from surefoot.init.method import METHODS
from surefoot.init.methods.single import SingleStd
from surefoot.recipe.init import InitMethod


@METHODS.register("vanilla")
@dataclass(frozen=True, kw_only=True)
class Vanilla(SingleStd):
    """All sqrt(2/(5 width)), outputs over sqrt(2 layers) (Takase et al. 2023, 2312.16903)."""

    name: ClassVar[InitMethod] = "vanilla"

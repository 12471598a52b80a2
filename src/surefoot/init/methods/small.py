"""Small Init."""

from dataclasses import dataclass
from typing import ClassVar

from surefoot.init.method import METHODS
from surefoot.init.methods.single import SingleStd
from surefoot.recipe.init import InitMethod


@METHODS.register("small")
@dataclass(frozen=True, kw_only=True)
class Small(SingleStd):
    """All sqrt(2/(5 width)), whatever the depth (Nguyen and Salazar 2019, 1910.05895)."""

    name: ClassVar[InitMethod] = "small"

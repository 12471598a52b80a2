"""The methods with one standard deviation for all matrices."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from pydantic import ValidationError

from surefoot.errors import UsageError
from surefoot.init.layout import Weight
from surefoot.init.method import Method, Spread
from surefoot.init.shape import Shape
from surefoot.recipe import Init
from surefoot.recipe.init import InitMethod


@dataclass(frozen=True, kw_only=True)
class SingleStd(Method):
    """Normal weights of one standard deviation; embedding and output matrices by themselves.

    Attributes:
        std: of the matrices; ``small`` is sqrt(2/(5 width)). None: as the method says.
        embedding_std: of the embedding's table. None: as the method says.
        position_std: of a table of learned positions. None: as the embedding's.
        depth_scaled_outputs: divide output matrices by sqrt(2 layers). None: as the method says.
    """

    name: ClassVar[InitMethod]

    std: float | Literal["small"] | None = None
    embedding_std: float | str | None = None
    position_std: float | None = None
    depth_scaled_outputs: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what a recipe would refuse."""
        self._section()
        if self.position_std is not None and not 0 < self.position_std < math.inf:
            raise UsageError(f"position_std = {self.position_std}: expected a number above 0")

    @classmethod
    def from_recipe(cls, init: Init) -> Self:
        """With the standard deviations of the section."""
        return cls(
            std=init.std,
            embedding_std=init.embedding_std,
            depth_scaled_outputs=init.depth_scaled_outputs,
        )

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """Normal, by role alone."""
        stds = self._section().standard_deviations(shape.width)
        assert stds is not None  # by the preset of this method
        std, embedding_std, depth_scaled = stds
        if weight.role == "position" and self.position_std is not None:
            return Spread(self.position_std)
        if weight.role in ("embedding", "position"):
            return Spread(embedding_std)
        if weight.role in ("attention_out", "feed_forward_out") and depth_scaled:
            return Spread(std / math.sqrt(2 * shape.layers))
        return Spread(std)

    def _recipe_embedding_std(self) -> float | str | None:
        """``embedding_std`` in the words of a recipe."""
        return self.embedding_std

    def _section(self) -> Init:
        """The section [init] that says the same."""
        try:
            return Init.model_validate(
                {
                    "method": self.name,
                    "std": self.std,
                    "embedding_std": self._recipe_embedding_std(),
                    "depth_scaled_outputs": self.depth_scaled_outputs,
                }
            )
        except ValidationError as error:
            first = error.errors()[0]
            field = first["loc"][0]
            raise UsageError(
                f"{field} = {first['input']!r}: expected a number above 0"
                + ("" if field == "depth_scaled_outputs" else ' or "small"')
            ) from None

"""Spike No More: embeddings of standard deviation near 1, small sub-layers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from surefoot.errors import UsageError
from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Spread
from surefoot.init.methods.single import SingleStd
from surefoot.init.shape import Shape
from surefoot.recipe.init import InitMethod


@METHODS.register("spike-no-more")
@dataclass(frozen=True, kw_only=True)
class SpikeNoMore(SingleStd):
    """Matrices sqrt(2/(5 width)), outputs over sqrt(2 layers), the embedding so that both hold.

    Takase et al. 2023, 2312.16903: gradients do not grow towards the first blocks if the sub-layers
    are small and the shortcut, hence the embedding, is large.

    Attributes:
        embedding_std: of the table. None: 1 behind the model's own factor, if it has one.
            ``scaled``: what Scaled Embed gives, sqrt(2/5) whatever the width, without a factor in
            the model: it is in the table. Embed LN needs a module, see
            :func:`surefoot.init.insert_embedding_norm`.
    """

    name: ClassVar[InitMethod] = "spike-no-more"

    embedding_std: float | Literal["small", "scaled"] | None = None

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """Normal, by role alone."""
        if weight.role == "position" and self.position_std is not None:
            return Spread(self.position_std)
        if weight.role in ("embedding", "position"):
            # Positions are not multiplied by a factor of the embedding.
            factor = shape.input_factor if weight.role == "embedding" else 1.0
            if self.embedding_std == "scaled":
                return Spread(math.sqrt(2 / 5) / factor)
            if self.embedding_std is None:
                return Spread(1 / factor)
        return super().spread(weight, shape)

    def _recipe_embedding_std(self) -> float | str | None:
        return None if self.embedding_std == "scaled" else self.embedding_std

    def check(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Refuse large embeddings that are the head too.

        Raises:
            UsageError: unless the model scales its embedding itself, or the spread is given.
        """
        chosen = self.embedding_std in (None, "scaled")
        if shape.tied and chosen and shape.input_factor == 1:
            std = self.spread(Weight(name="", role="embedding", fan_in=1, fan_out=1), shape).std
            raise UsageError(
                f"the head is tied to the embedding, which {self.name!r} draws with a standard "
                f"deviation of {std:.2g}: the token just read would get a logit near "
                f"{std * shape.width:.0f}, and the first loss be far above ln V. Untie them "
                "(config.tie_word_embeddings = False), or use insert_embedding_norm(model) with "
                "method 'vanilla', or say embedding_std = a number to have it so"
            )

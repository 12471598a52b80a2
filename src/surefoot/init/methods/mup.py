"""Maximal update parametrisation: rates tuned at one width hold at others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from torch import nn

from surefoot.errors import UsageError
from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.shape import Shape
from surefoot.recipe import Init

_HIDDEN = (
    "attention_in",
    "attention_value",
    "attention_out",
    "feed_forward_in",
    "feed_forward_out",
)


@METHODS.register("mup")
@dataclass(frozen=True, kw_only=True)
class MuP(Method):
    """muP for Adam (Yang et al. 2022, 2203.03466); r = width / base_width.

    At the base width it starts as ``spike-no-more`` does. With the width, tables keep their spread
    and rate; hidden matrices have 1/sqrt(r) the spread and 1/r the rate. The head comes in two
    forms that train the same under Adam: logits multiplied by 1/r by the model, with a constant
    spread and rate; or no factor, with 1/r the spread and the rate. A model needs both halves of
    its form: :func:`surefoot.init.coordinate_check` sees if one is missing. The router, also a
    matrix onto a fixed number of outputs, is of the second form always.

    Attention logits must not grow with the head size: ``architecture.attention_scale = "mup"``, or
    heads of one size at all widths. Norm gains and biases keep their rate. Weight decay is not
    scaled.

    Attributes:
        base_width: at which the rates were tuned. None: the model's own, which scales nothing.
        head_multiplier: whether the model multiplies its logits by 1/r, as a recipe's does.
        zero_head: start the head at 0, so that logits do not depend on the width at the start.
    """

    base_width: int | None = None
    head_multiplier: bool = False
    zero_head: bool = False

    @classmethod
    def from_recipe(cls, init: Init) -> Self:
        """With the base width of the section; a recipe's model multiplies its logits by 1/r."""
        return cls(base_width=init.base_width, head_multiplier=True)

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """Normal, by role and width."""
        ratio = self._ratio(shape)
        base_std = math.sqrt(2 * ratio / (5 * shape.width))
        if weight.role == "embedding":
            return Spread(1 / shape.input_factor)
        if weight.role == "position":
            return Spread(1.0)
        if weight.role == "head":
            if self.zero_head:
                return Spread(0.0)
            return Spread(base_std if self.head_multiplier else base_std / ratio)
        if weight.role == "router":
            return Spread(base_std / ratio)
        std = base_std / math.sqrt(ratio)
        if weight.role in ("attention_out", "feed_forward_out"):
            std /= math.sqrt(2 * shape.layers)
        return Spread(std)

    def rate_factor(self, role: str, shape: Shape) -> float:
        """1/r for hidden matrices, the router, and a head whose logits are not multiplied."""
        divided = role in (*_HIDDEN, "router") or (role == "head" and not self.head_multiplier)
        return 1 / self._ratio(shape) if divided else 1.0

    def check(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Refuse a tied head, whose table cannot have both spreads.

        Raises:
            UsageError: if the head's tensor is the embedding's.
        """
        if shape.tied:
            raise UsageError(
                'in "mup" embedding and head scale differently with the width, and here they are '
                "one tensor: untie them (config.tie_word_embeddings = False)"
            )

    def _ratio(self, shape: Shape) -> float:
        return 1.0 if self.base_width is None else shape.width / self.base_width

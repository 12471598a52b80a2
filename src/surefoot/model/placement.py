"""Where the norms of a block stand, as a table; a placement is a row of it.

A block has two sub-layers f, attention and feed-forward, and each may have a norm at three places:

::

    x -> on_sum( factor · x  +  layer_scale · on_output( f( on_input(x) ) ) )

What behind the last block is still unnormalised needs a final norm before the head. Where every
block ends with a norm of the sum there is none: a second one behind it would do nothing but repeat
the gain. The original Post-LN, B2T and DeepNorm have none either (GLM-130B, which adds one to
DeepNorm, is the exception).

Sources: Xiong et al. 2020, 2002.04745 (post against pre); Ding et al. 2021, 2105.13290 (sandwich);
Kim et al. 2025, 2502.02732 (peri); OLMo 2, 2501.00656 (reordered); Takase et al. 2022, 2206.00330
(b2t); Wang et al. 2022, 2203.00555 (deepnorm); Huang et al. 2020 (T-Fixup, none).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.recipe.architecture import Placement

# B sequences, T positions, C = width.


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """Where norms stand.

    Attributes:
        on_input: on what a sub-layer reads.
        on_output: on what a sub-layer computes, before it is added.
        on_sum: on the sum of shortcut and sub-layer.
        bottom_to_top: whether the block's input is added again before its last norm.
        on_embedding: behind the embedding.
        final: behind the last block.
    """

    on_input: bool = False
    on_output: bool = False
    on_sum: bool = False
    bottom_to_top: bool = False
    on_embedding: bool = False
    final: bool = False


PLACEMENTS: Mapping[Placement, Norms] = {
    "pre": Norms(on_input=True, final=True),
    "post": Norms(on_sum=True),
    "sandwich": Norms(on_input=True, on_output=True, final=True),
    "peri": Norms(on_input=True, on_output=True, final=True, on_embedding=True),
    "reordered": Norms(on_output=True, final=True),
    "b2t": Norms(on_sum=True, bottom_to_top=True),
    "deepnorm": Norms(on_sum=True),  # with a factor on the shortcut
    "none": Norms(),
}
"""The form of each ``architecture.norm_placement``."""


class LayerScale(nn.Module):
    """A trained factor on each channel of what a sub-layer writes, the same at first.

    It stands behind the norm of the output where there is one, which would undo it.

    Args:
        width: channels.
        first: first value of all of them. The paper takes 0.1 up to 18 layers, 1e-5 up to 24 and
            1e-6 beyond.

    Source: Touvron et al. 2021, 2103.17239.
    """

    def __init__(self, width: int, first: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.first = first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the first value."""
        nn.init.constant_(self.weight, self.first)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return x * self.weight


def add(
    shortcut: Tensor,
    written: Tensor,
    output_norm: nn.Module | None,
    layer_scale: nn.Module | None,
    sum_norm: nn.Module | None,
) -> Tensor:
    """The residual stream behind a sub-layer, (B, T, C).

    Args:
        shortcut: the stream before it, times its factor, (B, T, C).
        written: what the sub-layer computed, (B, T, C).
        output_norm: on what was written, or None.
        layer_scale: likewise.
        sum_norm: on the sum, or None.
    """
    if output_norm is not None:
        written = output_norm(written)
    if layer_scale is not None:
        written = layer_scale(written)
    total = shortcut + written
    return total if sum_norm is None else sum_norm(total)

"""One block of the decoder: attention and feed-forward, each added to the residual stream."""

from torch import Tensor, nn

from surefoot.model.attention import Attention
from surefoot.model.experts import Experts
from surefoot.model.feed_forward import FeedForward
from surefoot.model.norms import make_norm
from surefoot.model.placement import PLACEMENTS, LayerScale, add
from surefoot.recipe import Architecture


class Block(nn.Module):
    """Attention, then feed-forward or experts; its norms stand where the placement says.

    Args:
        architecture: shape and switches.
        number: of the block, from 1; for query-key layer scaling.
    """

    def __init__(self, architecture: Architecture, number: int = 1) -> None:
        super().__init__()
        a = architecture
        norms = PLACEMENTS[a.norm_placement]

        def norm(wanted: bool) -> nn.Module | None:
            return make_norm(a) if wanted else None

        def scale() -> nn.Module | None:
            return None if a.layer_scale is None else LayerScale(a.width, a.layer_scale)

        self.attention_norm = norm(norms.on_input)
        self.attention = Attention(a, number)
        self.attention_output_norm = norm(norms.on_output)
        self.attention_layer_scale = scale()
        self.attention_sum_norm = norm(norms.on_sum)
        self.feed_forward_norm = norm(norms.on_input)
        self.feed_forward = FeedForward(a) if a.experts is None else Experts(a)
        self.feed_forward_output_norm = norm(norms.on_output)
        self.feed_forward_layer_scale = scale()
        self.feed_forward_sum_norm = norm(norms.on_sum)
        self.shortcut_factor = a.shortcut_factor
        self.bottom_to_top = norms.bottom_to_top

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, measured: list[Tensor] | None, sequences: int
    ) -> Tensor:
        """(B, T, C) -> (B, T, C); the arguments of :class:`Attention`."""
        bottom = x
        read = x if self.attention_norm is None else self.attention_norm(x)
        x = add(
            self._shortcut(x),
            self.attention(read, cos, sin, measured, sequences),
            self.attention_output_norm,
            self.attention_layer_scale,
            self.attention_sum_norm,
        )
        read = x if self.feed_forward_norm is None else self.feed_forward_norm(x)
        shortcut = self._shortcut(x)
        return add(
            shortcut + bottom if self.bottom_to_top else shortcut,
            self.feed_forward(read),
            self.feed_forward_output_norm,
            self.feed_forward_layer_scale,
            self.feed_forward_sum_norm,
        )

    def _shortcut(self, x: Tensor) -> Tensor:
        return x if self.shortcut_factor == 1 else x * self.shortcut_factor

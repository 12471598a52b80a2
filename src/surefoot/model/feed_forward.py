"""The feed-forward sub-layer of a dense model, and each expert of a mixture."""

import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.recipe import Architecture

# B sequences, T positions, C = width.


class FeedForward(nn.Module):
    """SwiGLU, w2(silu(w1 x) · w3 x), or GELU, w2(gelu(w3 x)) with the exact (erf) GELU.

    Source: Shazeer 2020, 2002.05202.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        gated = a.activation == "swiglu"
        self.w1 = nn.Linear(a.width, a.inner_width, bias=False) if gated else None
        self.w2 = nn.Linear(a.inner_width, a.width, bias=False)
        self.w3 = nn.Linear(a.width, a.inner_width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        up = self.w3(x)
        hidden = F.gelu(up) if self.w1 is None else F.silu(self.w1(x)) * up
        output: Tensor = self.w2(hidden)
        return output

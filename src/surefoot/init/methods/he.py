"""He, or Kaiming, initialisation."""

import math
from dataclasses import dataclass

from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.methods.xavier import table_std
from surefoot.init.shape import Shape


@METHODS.register("he")
@dataclass(frozen=True, kw_only=True)
class He(Method):
    """Variance gain^2/fan_in: sqrt(2) behind a rectifier, 1 elsewhere (He et al. 2015, 1502.01852).

    The numbers are those of ``torch.nn.init.kaiming_normal_`` with mode ``fan_in``. In a decoder
    the matrix behind the activation is the down matrix alone.

    Attributes:
        rectified_gain: of the down matrices.
        gain: of all others. sqrt(2) gives what ``kaiming_normal_`` does without arguments.
        uniform: draw evenly, as ``kaiming_uniform_`` does.
        embedding_std: of embedding and positions. None: 1/sqrt(width).
    """

    rectified_gain: float = math.sqrt(2)
    gain: float = 1.0
    uniform: bool = False
    embedding_std: float | None = None

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """By the channels that the matrix reads."""
        if weight.role in ("embedding", "position"):
            return Spread(table_std(self.embedding_std, shape))
        gain = self.rectified_gain if weight.role == "feed_forward_out" else self.gain
        return Spread(gain / math.sqrt(weight.fan_in), self.uniform)

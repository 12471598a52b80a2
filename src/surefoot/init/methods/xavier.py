"""Xavier, or Glorot, initialisation."""

import math
from dataclasses import dataclass

from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.shape import Shape


@METHODS.register("xavier")
@dataclass(frozen=True, kw_only=True)
class Xavier(Method):
    """Variance 2/(fan_in + fan_out) (Glorot and Bengio 2010), of each matrix by itself.

    The numbers are those of ``torch.nn.init.xavier_normal_``; matrices that lie in one tensor count
    each with its own fan. The rule is about layers, not about lookups: tables are drawn with
    1/sqrt(width), as in fairseq.

    Attributes:
        gain: factor on the standard deviation of the matrices.
        uniform: draw evenly, as ``xavier_uniform_`` does.
        embedding_std: of embedding and positions. None: 1/sqrt(width).
    """

    gain: float = 1.0
    uniform: bool = False
    embedding_std: float | None = None

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """By the fans of the matrix."""
        if weight.role in ("embedding", "position"):
            return Spread(table_std(self.embedding_std, shape))
        return Spread(xavier_std(weight, self.gain), self.uniform)


def xavier_std(weight: Weight, gain: float = 1.0) -> float:
    """Gain times sqrt(2/(fan_in + fan_out))."""
    return gain * math.sqrt(2 / (weight.fan_in + weight.fan_out))


def table_std(given: float | None, shape: Shape) -> float:
    """What is given, else 1/sqrt(width)."""
    return 1 / math.sqrt(shape.width) if given is None else given

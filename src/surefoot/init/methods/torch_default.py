"""What torch's own modules start with."""

import math
from dataclasses import dataclass

from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.shape import Shape


@METHODS.register("torch")
@dataclass(frozen=True, kw_only=True)
class TorchDefault(Method):
    """As ``nn.Linear`` and ``nn.Embedding`` reset themselves, but of generators by name.

    Matrices and biases evenly from plus or minus 1/sqrt(fan_in), tables normal with 1.
    """

    draws_biases = True

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """By the channels that the matrix reads; tables 1."""
        if weight.role in ("embedding", "position"):
            return Spread(1.0)
        return Spread(1 / math.sqrt(3 * weight.fan_in), uniform=True)

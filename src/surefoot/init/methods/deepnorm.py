"""DeepNorm's initialisation, for its placement of the norm."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from surefoot.errors import UsageError
from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.methods.xavier import table_std, xavier_std
from surefoot.init.shape import Shape

_SCALED = ("attention_value", "attention_out", "feed_forward_in", "feed_forward_out")


@METHODS.register("deepnorm")
@dataclass(frozen=True, kw_only=True)
class DeepNorm(Method):
    """Xavier with a gain below 1 on value, output and feed-forward matrices.

    It belongs to x' = N(alpha x + f(x)) with alpha above 1 (Wang et al. 2022, 2203.00555); the
    constants here are the usual ones, and can be set. Queries and keys have a gain of their own:
    where they lie in one tensor with the values, each part is drawn with its own.

    Attributes:
        gain: of value, output and feed-forward matrices. None: (8 layers)^(-1/4).
        query_key_gain: of all other matrices.
        embedding_std: of embedding and positions. None: 1/sqrt(width).
    """

    gain: float | None = None
    query_key_gain: float = 1.0
    embedding_std: float | None = None

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """Normal, by fans and role."""
        if weight.role in ("embedding", "position"):
            return Spread(table_std(self.embedding_std, shape))
        gain = self.query_key_gain
        if weight.role in _SCALED:
            gain = (8 * shape.layers) ** -0.25 if self.gain is None else self.gain
        return Spread(xavier_std(weight, gain))

    def check(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Refuse other placements.

        Raises:
            UsageError: if the model is known to have another one, or has no norm.
        """
        placement = shape.placement if shape.norms else "none"
        if placement not in ("deepnorm", None):
            raise UsageError(
                'the initialisation "deepnorm" is made for norms placed as N(alpha x + f(x)) with '
                f'alpha = (2 layers)^(1/4); those of this model are placed "{placement}", where '
                'its small weights have no enlarged shortcut beside them: use "spike-no-more", '
                'or architecture.norm_placement = "deepnorm"'
            )

"""T-Fixup: an initialisation in place of norms."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from surefoot.errors import UsageError
from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.methods.xavier import table_std, xavier_std
from surefoot.init.shape import Shape

_SCALED = ("attention_value", "attention_out", "feed_forward_in", "feed_forward_out")


@METHODS.register("t-fixup")
@dataclass(frozen=True, kw_only=True)
class TFixup(Method):
    """Xavier, with tables, values, outputs and feed-forward scaled down by depth.

    For models without norms (Huang et al. 2020). The released code (layer6ai-labs/T-Fixup) scales a
    decoder by (9 layers)^(-1/4) and an encoder by 0.67 layers^(-1/4). The former is for blocks of
    three sub-layers; a decoder-only model has two, so it errs on the small side. The code also
    multiplies value matrices by sqrt(2), since Xavier on the fused tensor makes them too small:
    here each part of a fused tensor has a fan of its own.

    Attributes:
        factor: None: (9 layers)^(-1/4).
        query_key_gain: of the matrices that are not scaled; 1/sqrt(2) gives the released code's.
        embedding_std: of embedding and positions, before the factor. None: 1/sqrt(width).
    """

    factor: float | None = None
    query_key_gain: float = 1.0
    embedding_std: float | None = None

    def spread(self, weight: Weight, shape: Shape) -> Spread:
        """Normal, by fans and role."""
        factor = (9 * shape.layers) ** -0.25 if self.factor is None else self.factor
        if weight.role in ("embedding", "position"):
            return Spread(factor * table_std(self.embedding_std, shape))
        if weight.role in _SCALED:
            return Spread(xavier_std(weight, factor))
        gain = self.query_key_gain if weight.role == "attention_in" else 1.0
        return Spread(xavier_std(weight, gain))

    def check(self, model: nn.Module, roles: Mapping[str, str], shape: Shape) -> None:
        """Refuse models with norms.

        Raises:
            UsageError: if the residual stream is normalised; norms on queries and keys alone are
                no reason where the placement says so.
        """
        if shape.placement == "none" or not (shape.norms or shape.placement):
            return
        where = "" if shape.placement is None else f' (placement "{shape.placement}")'
        raise UsageError(
            f'the initialisation "t-fixup" replaces the norms, and this model has them{where}: '
            "behind a norm its factors are lost, before one they only shrink the sub-layers. Use "
            '"spike-no-more", or architecture.norm_placement = "none"'
        )

"""How much is measured: three levels."""

from dataclasses import dataclass
from typing import Literal, get_args

from surefoot.errors import UsageError, nearest

LevelName = Literal["light", "standard", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a level measures.

    Attributes:
        name: ``light``: loss, global gradient norm, learning rate. ``standard``: gradient and
            parameter norms by parameter too, and sampled what Adam's state says (update sizes and
            how updates are spread, Adam's RMS and the lag of the second moment, the share below
            eps, the cosine of gradients) and log Z. ``full``: those at each step, and attention
            logits.
        sample_every: steps between the sampled signals.
    """

    name: LevelName
    sample_every: int

    @property
    def light(self) -> bool:
        """Whether nothing is measured by parameter or sampled."""
        return self.name == "light"

    @property
    def attention(self) -> bool:
        """Whether attention logits are measured, where the model can."""
        return self.name == "full"


_SAMPLED = {"light": 1, "standard": 20, "full": 1}


def level_of(name: str, sample_every: int | None = None) -> Level:
    """The level of that name.

    Raises:
        UsageError: if there is none, or ``sample_every`` is below 1.
    """
    known: tuple[LevelName, ...] = get_args(LevelName)
    for one in known:
        if one == name:
            return Level(name=one, sample_every=sample_every or _SAMPLED[one])
    raise UsageError(
        f"level={name!r}: expected 'light', 'standard' or 'full'{nearest(str(name), list(known))}"
    )

"""A loss scale in decline (Zhang et al. 2022, 2205.01068: OPT-175B; Micikevicius 2017, 1710.03740).

Dynamic scaling halves the scale at each overflow and doubles it after a long quiet stretch, so in a
healthy run it moves about a level. In OPT-175B it fell and went on falling tens to hundreds of
steps before a divergence. With y = log2 of the scale:

    score = (mean of y over 500 records - y) / 4

four halvings below where it used to be; and at least 2 once the scale is 1 or less.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import positive_log
from surefoot.detect.scores import Scores

SPAN = 500
HALVINGS = 4.0


class LossScaleDecline:
    """Watches ``loss_scale``."""

    name = "loss-scale-decline"
    signals = ("loss_scale",)

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._since: int | None = None

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        log = positive_log(values.get("loss_scale"))
        if log is None:
            return None
        scale = log / math.log(2.0)
        below = self._mean - scale if self._count else 0.0
        self._count += 1
        self._mean += (scale - self._mean) / min(self._count, SPAN)
        if below < 0.5:
            self._since = None
            return None
        if self._since is None:
            self._since = step
        score = below / HALVINGS
        if scale <= 0.0 and below >= 2.0:
            score = max(score, 2.0)
        numbers = {"loss_scale": 2.0**scale, "halvings": below}
        return Sign(score=score, since=self._since, signal="loss_scale", numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return [self._count, self._mean, self._since]

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._count, self._mean, self._since = state

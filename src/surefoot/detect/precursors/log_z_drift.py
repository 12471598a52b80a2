"""Output logits that drift (Chowdhery et al. 2022, 2204.02311; Wortsman et al. 2023, 2309.14322).

The softmax does not see a constant added to all logits, so nothing but a z-loss holds log Z near
0. In half precision a large |log Z| costs digits, and its growth goes with logits that diverge:
they go to minus infinity together, over hundreds of steps. Scored is the growth of

    x = log(1 + |log Z|)

    score = min(drift / 6,  growth over 100 steps / 0.2)

of the mean log Z: its noise is far smaller than that of the largest, which stands in where the mean
is not measured. In a healthy run it creeps up by 0.1 at most.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.bank import Scores
from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth, finite

DRIFT = 6.0
GROWTH = 0.2
KNOWN_FROM = 32


class LogZDrift:
    """Watches ``log_z``, or ``log_z_abs_max``."""

    name = "log-z-drift"
    signals = ("log_z", "log_z_abs_max")

    def __init__(self) -> None:
        self._growth = Growth(prior=0.1, floor=0.02)

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        name = self.signals[0] if self.signals[0] in values else self.signals[1]
        value = finite(values.get(name))
        if value is None:
            return None
        growth = self._growth
        growth.update(step, math.log1p(abs(value)))
        if growth.since is None or growth.count < KNOWN_FROM:
            return None
        change = 100.0 * growth.rate()
        score = min(growth.drift() / DRIFT, change / GROWTH)
        if score < 0.5:
            return None
        numbers = {name: math.expm1(growth.fast), "growth_per_100_steps": math.exp(min(change, 50))}
        return Sign(score=score, since=growth.since, signal=name, numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._growth.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._growth.load_state_dict(state)

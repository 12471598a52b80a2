"""Attention logits that grow without bound (Wortsman et al. 2023, 2309.14322; 2302.05442).

Without QK-norm the largest |q.k| / sqrt(d) of a layer can grow exponentially at a high learning
rate; attention becomes one-hot, its gradient vanishes, and the run is lost at 10^3 to 10^4 while
the gradient norm stays small. The score asks where the logits will be:

    x = log(largest logit),   growth = 200 steps * slope of x,   ahead = x + growth
    score = min(log(ahead / 10) / log(100 / 10),  growth / log 2,  drift / 4)

so it is 1 when they are on their way to 100 within 200 steps, at least doubling, and surely so: the
drift is the distance of a short and a long mean in noise units. A model with QK-norm is bounded by
sqrt(head_dim) times its gains and never gets there.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.bank import Scores
from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth, positive_log

AHEAD = 200
HARMLESS, HARMFUL = math.log(10.0), math.log(100.0)
GROWTH = math.log(2.0)
DRIFT = 4.0
RATE_FROM = 16


class AttentionGrowth:
    """Watches ``attention_logit_max``, the largest of all layers."""

    name = "attention-growth"
    signals = ("attention_logit_max",)

    def __init__(self) -> None:
        self._growth = Growth(prior=0.2, floor=0.02)

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        value = positive_log(values.get("attention_logit_max"))
        if value is None:
            return None
        growth = self._growth
        growth.update(step, value)
        if growth.since is None or growth.count < RATE_FROM:
            return None
        rate = growth.rate()
        ahead = growth.fast + AHEAD * rate
        reach = (ahead - HARMLESS) / (HARMFUL - HARMLESS)
        score = min(reach, AHEAD * rate / GROWTH, growth.drift() / DRIFT)
        if score < 0.5:
            return None
        numbers = {
            "attention_logit_max": math.exp(growth.fast),
            "growth_per_100_steps": math.exp(min(100.0 * rate, 50.0)),
        }
        return Sign(score=score, since=growth.since, signal=self.signals[0], numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._growth.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._growth.load_state_dict(state)

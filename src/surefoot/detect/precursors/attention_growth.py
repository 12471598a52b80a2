"""Attention logits that grow without bound (Wortsman et al. 2023, 2309.14322).

Without QK-norm the largest |q.k| / sqrt(d) of a layer can grow exponentially at a high learning
rate; attention becomes one-hot, its gradient vanishes, and the run is lost at 10^3 to 10^4 while
the gradient norm stays small. The score asks where the logits will be:

    x = log(largest logit),   growth = 200 steps * slope of x,   ahead = x + growth
    score = min(log(ahead / 10) / log(400 / 10),  growth / log 2.8,  drift / 2)

so it is 1 when they are on their way to 400 within 200 steps, growing by a factor of 2.8, and
surely so: the drift is the distance of a short and a long mean in noise units. A model with QK-
norm is bounded by sqrt(head_dim) times its gains and never gets there; a healthy one without
may run at 100, but it comes there ever more slowly.
"""

import math
from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.growing import Growing
from surefoot.detect.precursors.growth import Growth, positive_log

AHEAD = 200
HARMLESS, HARMFUL = math.log(10.0), math.log(400.0)
GROWTH = math.log(2.8)
DRIFT = 2.0


class AttentionGrowth(Growing):
    """Watches ``attention_logit_max``, the largest of all layers."""

    name = "attention-growth"
    signals = ("attention_logit_max",)
    known_from = 16

    def scaled(self, value: object, values: Mapping[str, Any]) -> float | None:
        """Its logarithm."""
        return positive_log(value)

    def score(self, growth: Growth) -> float:
        """Where it will be, how fast it grows, and how surely."""
        more = AHEAD * growth.rate()
        reach = (growth.fast + more - HARMLESS) / (HARMFUL - HARMLESS)
        return min(reach, more / GROWTH, growth.drift() / DRIFT)

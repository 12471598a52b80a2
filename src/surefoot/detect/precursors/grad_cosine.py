"""Gradients correlated in time (Molybog et al. 2023, 2304.09871; Cohen et al. 2022, 2207.14484).

The cosine of a gradient with Adam's first moment before it. Gradients that agree from step to step
add up to updates near the full rate (towards +1, the state before divergence); at the edge of
stability the sharpest direction flips sign each step (towards -1). With c a short mean:

    score = max((c - usual c) / 0.2,  -c / 0.3),   at least 3 noise units from the usual c
"""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth, finite
from surefoot.detect.scores import Scores

RISE, FLIP, DRIFT = 0.2, 0.3, 3.0
KNOWN_FROM = 32


class GradCosine:
    """Watches ``grad_cosine``."""

    name = "gradient-correlation"
    signals = ("grad_cosine",)

    def __init__(self) -> None:
        self._growth = Growth(prior=0.2, floor=0.02)
        self._since: int | None = None

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        value = finite(values.get("grad_cosine"))
        if value is None or abs(value) > 1.001:
            return None
        growth = self._growth
        growth.update(step, value)
        change = growth.fast - growth.slow
        score = min(max(change / RISE, -growth.fast / FLIP), abs(growth.drift()) / DRIFT)
        if score < 0.5 or growth.count < KNOWN_FROM:
            self._since = None
            return None
        if self._since is None:
            self._since = step
        numbers = {"grad_cosine": growth.fast, "usual": growth.slow}
        return Sign(score=score, since=self._since, signal="grad_cosine", numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return [self._growth.state_dict(), self._since]

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._growth.load_state_dict(state[0])
        self._since = state[1]

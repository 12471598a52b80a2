"""A second moment that lags behind the gradient (Wortsman et al. 2023, 2304.13013).

    RMS_t = sqrt(mean(g^2 / max(v, eps^2)))

of a tensor is about 1 while v is up to date; at 2.3 and more the update is larger than Adam means
it to be, and a loss spike follows 1 to 8 steps later (28 of 30 in their runs). Where batches are
small or tokens rare it exceeds 2.3 in healthy runs too, so it must also be an outlier of its own
course, in the whole or at a place; and where it stays out for two records, 1.5 is enough:

    score = min(RMS_t / 2.3,  score of the bank)      (1.5 for 2.3 once the bank is sure)
"""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.bank import Scores
from surefoot.detect.precursors.base import Sign

HIGH = 2.3
HIGH_TWICE = 1.5


class SecondMoment:
    """Watches ``adam_rms``, in the whole and at its places."""

    name = "second-moment"
    signals = ("adam_rms",)

    def __init__(self) -> None:
        self._step = 0

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        for name, score, value, since in scores.outliers:
            if score > 0.0 and name.partition("@")[0] == "adam_rms":
                numbers = {"adam_rms": value, "threshold_score": score}
                high = HIGH_TWICE if name in scores.opened else HIGH
                worst = min(value / high, score)
                return Sign(score=worst, since=since, signal=name, numbers=numbers)
        return None

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._step

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._step = state

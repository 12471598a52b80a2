"""A second moment that lags behind the gradient (Wortsman et al. 2023, 2304.13013).

    RMS_t = sqrt(mean(g^2 / max(v, eps^2)))

of a tensor is about 1 while v is up to date; where it is well above, the update is larger than Adam
means it to be, and in their runs 28 of 30 loss spikes came 1 to 8 steps after a value of 2.3. In
small healthy runs with beta2 = 0.999 single records reach 2.3 to 4 without any harm, so it must
stay out for two records, or be absurd, by the bank's threshold for its own course, in the whole or
at a place; 1.5 is enough then:

    score = min(RMS_t / 1.5,  score of the bank)
"""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.base import Sign
from surefoot.detect.scores import Scores

HIGH = 1.5


class SecondMoment:
    """Watches ``adam_rms``, in the whole and at its places."""

    name = "second-moment"
    signals = ("adam_rms",)

    def __init__(self) -> None:
        self._step = 0

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        for name, score, value, since in scores.outliers:
            if score > 0.0 and name in scores.opened and name.partition("@")[0] == "adam_rms":
                numbers = {"adam_rms": value, "threshold_score": score}
                worst = min(value / HIGH, score)
                return Sign(score=worst, since=since, signal=name, numbers=numbers)
        return None

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return self._step

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._step = state

"""A signal that leaves its course for good, or absurdly, while the loss is still on its own.

What the bank of signals confirms at the stated rate of false alarms: two values in a row beyond
the threshold, or one a hundred times off. Before the spike of BLOOM-176B the gradient norm did so
four steps ahead of the peak; after a fault in memory or in the optimizer's state single tensors do.
"""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.precursors.base import Sign
from surefoot.detect.scores import Scores


class Sudden:
    """Takes up what the bank confirms, of any signal."""

    name = "sudden"
    signals: tuple[str, ...] = ()

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        if not scores.opened:
            return None
        for name, score, value, since in scores.outliers:
            if name in scores.opened:
                numbers = {name: value, "signals": float(len(scores.opened))}
                return Sign(score=abs(score), since=since, signal=name, numbers=numbers)
        return Sign(score=1.0, since=step, signal=scores.opened[0])

    def state_dict(self) -> Any:
        """Nothing to keep."""
        return None

    def load_state_dict(self, state: Any) -> None:
        """Nothing to take up."""

"""What the precursors share that rest on the growth of one signal."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.detect.precursors.base import Sign
from surefoot.detect.precursors.growth import Growth
from surefoot.detect.scores import Scores

BEGUN = 0.35
SAID = 0.5


class Growing(ABC):
    """A precursor that scores the growth of the first of its signals that a record holds.

    A subclass says on which scale the signal is taken, and how its growth is scored. The symptom
    is dated to the record from which on the score was above 0.35 without a break.
    """

    name: ClassVar[str]
    signals: ClassVar[tuple[str, ...]]
    prior: ClassVar[float] = 0.2
    floor: ClassVar[float] = 0.02
    known_from: ClassVar[int] = 32

    def __init__(self) -> None:
        self.growth = Growth(prior=self.prior, floor=self.floor)
        self.since: int | None = None

    @abstractmethod
    def scaled(self, value: object, values: Mapping[str, Any]) -> float | None:
        """The signal on the scale on which it is followed; None if it has no value there."""

    def natural(self, value: float) -> float:
        """Back to what people read."""
        return math.exp(min(value, 700.0))

    @abstractmethod
    def score(self, growth: Growth) -> float:
        """Of the growth as it stands; 1 = warns."""

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record."""
        name = self.signals[0] if self.signals[0] in values else self.signals[-1]
        value = self.scaled(values.get(name), values)
        if value is None:
            return None
        growth = self.growth
        growth.update(step, value)
        if growth.fast <= growth.slow or growth.count < self.known_from:
            self.since = None
            return None
        score = self.score(growth)
        if score < BEGUN:
            self.since = None
            return None
        if self.since is None:
            self.since = step
        if score < SAID:
            return None
        numbers = {
            name: self.natural(growth.fast),
            "growth_per_100_steps": math.exp(min(100.0 * growth.rate(), 50.0)),
        }
        return Sign(score=score, since=self.since, signal=name, numbers=numbers)

    def state_dict(self) -> Any:
        """All state, as JSON values."""
        return [self.growth.state_dict(), self.since]

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""
        self.growth.load_state_dict(state[0])
        self.since = state[1]

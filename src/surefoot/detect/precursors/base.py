"""What a precursor is: a small state machine that turns one kind of symptom into a score."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from surefoot.detect.scores import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What a precursor says of a record.

    Attributes:
        score: 1 and more = warns.
        since: step at which the symptom began.
        signal: the signal that shows it.
        numbers: what it rests on.
    """

    score: float
    since: int
    signal: str
    numbers: Mapping[str, float] = field(default_factory=dict)


class Precursor(Protocol):
    """A symptom that comes before the loss shows trouble."""

    @property
    def name(self) -> str:
        """With hyphens, as in tables."""

    @property
    def signals(self) -> tuple[str, ...]:
        """Scalars that it reads: it is asked about records with the first or last of them."""

    def update(self, step: int, values: Mapping[str, Any], scores: Scores) -> Sign | None:
        """Take up a record; None while there is nothing to say."""

    def state_dict(self) -> Any:
        """All state, as JSON values."""

    def load_state_dict(self, state: Any) -> None:
        """Take up the state of :meth:`state_dict`."""

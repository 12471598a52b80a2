"""Where a run stands: the numbers that, with the tensors, are all that a resume needs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class TrainState:
    """Position of a run after ``step`` updates.

    Attributes:
        step: steps taken, skipped updates included.
        consumed_samples: sequences consumed; the next batch starts there.
        consumed_tokens: tokens consumed.
        skipped_samples: raw sample ranges [first, last) that are never fed.
    """

    step: int = 0
    consumed_samples: int = 0
    consumed_tokens: int = 0
    skipped_samples: list[tuple[int, int]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TrainState":
        """Inverse of :meth:`to_json`."""
        return cls(
            step=data["step"],
            consumed_samples=data["consumed_samples"],
            consumed_tokens=data["consumed_tokens"],
            skipped_samples=[(first, last) for first, last in data["skipped_samples"]],
        )

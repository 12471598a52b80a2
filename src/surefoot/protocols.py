"""What parts promise one another: small protocols, so that any part can be replaced by a user's."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from surefoot.records import Finding, StepRecord, Verdict


@runtime_checkable
class Detector(Protocol):
    """A small state machine fed one step at a time, online and offline alike.

    O(1) time and memory a step. Its state is plain JSON data, so that it survives a restart;
    feeding the same records in any split, with the state carried over, gives the same verdicts.
    """

    name: str

    def update(self, record: StepRecord) -> Verdict:
        """Judge the next step; records come in increasing ``step``."""
        ...

    def finish(self) -> tuple[Finding, ...]:
        """Findings on incidents still open when the data ends."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        ...


@runtime_checkable
class Ledger(Protocol):
    """Where findings and actions are recorded, durably, before they take effect."""

    def append(self, kind: str, *, step: int | None = None, **data: Any) -> None:
        """Write one event and flush it to disk before returning."""
        ...

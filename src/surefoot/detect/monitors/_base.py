"""What the monitors share: the protocol, a number read with care, and a finding."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from surefoot.codes import lookup
from surefoot.records import Event, Finding, Place, StepRecord

NOTHING: tuple[Finding, ...] = ()


LARGEST = 1 << 62


class Row:
    """A record as the monitors see it: every value a number, NaN and infinity included.

    Attributes:
        step: of the record.
        attempt: of the record.
        values: by signal; what is no number is left out.
    """

    __slots__ = ("attempt", "step", "values")

    def __init__(self, record: StepRecord) -> None:
        self.step = record.step
        self.attempt = record.attempt
        self.values: Mapping[str, float] = record.values
        for value in record.values.values():
            kind = type(value)
            if kind is not float and not (kind is int and -LARGEST < value < LARGEST):
                self._take(record.values)
                return

    def _take(self, values: Mapping[str, Any]) -> None:
        """Numbers of other types (numpy, bool, an integer beyond a float) are taken, too."""
        found: dict[str, float] = {}
        for name, value in values.items():
            if value is None or isinstance(value, str):
                continue
            try:
                found[name] = float(value)
            except OverflowError:
                found[name] = math.inf if value > 0 else -math.inf
            except (TypeError, ValueError):
                continue
        self.values = found


@runtime_checkable
class Monitor(Protocol):
    """One check that a run is consistent with itself; it needs no incident.

    A small state machine like a detector: O(1) time and memory a record, state as JSON values,
    the same findings for any split of the input. It never raises on what a record holds.
    """

    name: str

    def update(self, row: Row) -> Sequence[Finding]:
        """What the next record tells; usually :data:`NOTHING`."""
        ...

    def finish(self) -> Sequence[Finding]:
        """What can be told only when no record follows; changes nothing."""
        ...

    def tell(self, event: Event) -> None:
        """Take note of an event of the ledger, e.g. a resume; it comes before its records."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        ...


class Plain:
    """Base of a monitor whose state is its listed attributes, all of them JSON values.

    Attributes:
        fields: names of the attributes that are state.
    """

    name = ""
    fields: tuple[str, ...] = ()

    def finish(self) -> Sequence[Finding]:
        """Nothing is held back."""
        return NOTHING

    def tell(self, event: Event) -> None:
        """No event matters."""

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {name: _copy(getattr(self, name)) for name in self.fields}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`; what it lacks starts anew."""
        for name in self.fields:
            if name in state:
                setattr(self, name, _copy(state[name]))


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value


def finite(values: Mapping[str, float], name: str) -> float | None:
    """A signal of a row; None if there is none or it is not finite."""
    value = values.get(name)
    return value if value is not None and value - value == 0.0 else None


def finding(
    code: str,
    message: str,
    row: Row,
    *,
    signal: str,
    evidence: Mapping[str, Any],
    actions: Sequence[str],
    first: int | None = None,
    cause: str | None = None,
    references: Sequence[str] = (),
) -> Finding:
    """A finding at a record.

    Args:
        code: of the table of codes.
        message: one sentence with its numbers.
        row: the newest record; its step ends the place.
        signal: the signal it is about.
        evidence: JSON values.
        actions: what to do, in order.
        first: first step of the place, where it began; default: the record's.
        cause: of :data:`surefoot.detect.evidence.CAUSES`, where the contradiction proves it.
        references: where it is known from.
    """
    entry = lookup(code)
    begin = row.step if first is None else min(first, row.step)
    known = dict(evidence)
    if cause is not None:
        known |= {
            "onset_step": begin,
            "onset_interval": [begin, begin],
            "last_healthy_step": begin - 1,
            "causes": [
                {
                    "cause": cause,
                    "share": 1.0,
                    "supports": [message],
                    "contradicts": [],
                    "experiment": "",
                }
            ],
        }
    return Finding(
        code=code,
        name=entry.name,
        severity=entry.severity,
        place=Place(attempt=row.attempt, steps=(begin, row.step), signal=signal),
        evidence=known,
        message=message,
        actions=tuple(actions),
        references=tuple(references),
    )

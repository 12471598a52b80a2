"""Early warning (SPK005): a precursor left its band before the loss did.

One warning a trouble: while any precursor goes on, or has within the last 200 records, nothing is
told again unless it has become twice as bad. None while an incident is open, for that is told
already; none in the first 100 records, while the learning rate warms up or shortly after a change
that the run announces, unless the symptom is three times over its threshold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.detect.precursors import ALL, DEFAULT, Precursor, Sign
from surefoot.detect.precursors.growth import Growth, finite, positive_log
from surefoot.detect.scores import Scores
from surefoot.records import StepRecord

FIRST = 100
AGAIN = 200
WORSE = 2.0
ABSURD = 3.0
AFTER_CHANGE = 48
GOES_ON = 0.7
WARMING = 0.0005
FALLING = 0.5
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySign:
    """A warning.

    Attributes:
        precursor: its name.
        step: of the record that was judged.
        since: step at which the symptom began.
        signal: that shows it.
        score: 1 = the threshold.
        numbers: what it rests on.
        others: further precursors that warn at the same record.
    """

    precursor: str
    step: int
    since: int
    signal: str
    score: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    others: tuple[str, ...] = ()


class EarlyWarning:
    """Asks the precursors about each record.

    ::

        warning = EarlyWarning()
        for sign in warning.update(record, bank.update(record)):
            print(sign.precursor, sign.since, sign.numbers)

    Args:
        precursors: their names; by default those that help.

    Raises:
        ValueError: for a name that is no precursor's.

    Attributes:
        score: of the precursor that is furthest out at the newest record; 0 below 0.7.
    """

    def __init__(self, precursors: tuple[str, ...] = DEFAULT) -> None:
        for name in precursors:
            if name not in ALL:
                raise ValueError(f"expected a precursor of {', '.join(ALL)}, got {name!r}")
        self.precursors: tuple[Precursor, ...] = tuple(ALL[name]() for name in precursors)
        self.score = 0.0
        self._records = 0
        self._last_sign = -AGAIN
        self._told = 0.0
        self._changed = -AFTER_CHANGE
        self._log_rate = math.nan
        self._warming = 0.0
        self._loss = Growth(prior=0.2, floor=0.002)

    def update(
        self, record: StepRecord, scores: Scores, *, incident: bool = False
    ) -> tuple[EarlySign, ...]:
        """Judge the next record.

        Args:
            record: the record.
            scores: what the bank says of it.
            incident: whether an incident is open; the precursors go on, but nothing is told.

        Returns:
            At most one warning.
        """
        self._records += 1
        records, values, step = self._records, record.values, record.step
        if scores.changes:
            self._changed = records
        self._follow_rate(values)
        loss = finite(values.get("loss"))
        if loss is not None and abs(loss) < 1e3:
            self._loss.update(step, loss)
        found: list[tuple[str, Sign]] = []
        for precursor in self.precursors:
            signals = precursor.signals
            if signals and signals[0] not in values and signals[-1] not in values:
                continue
            sign = precursor.update(step, values, scores)
            if sign is not None and sign.score >= GOES_ON:
                found.append((precursor.name, sign))
        self.score = max((sign.score for _, sign in found), default=0.0)
        if not found and not incident:
            return ()
        return self._tell(found, step, incident)

    def _follow_rate(self, values: Mapping[str, Any]) -> None:
        rate = positive_log(values.get("learning_rate"))
        if rate is None:
            return
        if self._log_rate == self._log_rate:
            change = min(max(rate - self._log_rate, -0.1), 0.1)
            self._warming += (change - self._warming) / 16.0
        self._log_rate = rate

    def guarded(self) -> bool:
        """Whether the run explains by itself that signals move."""
        # The loss's fall a record, over 100 records.
        falling = -100.0 * self._loss.rate() * self._loss.gap
        return (
            self._records <= FIRST
            or self._warming > WARMING
            or self._records - self._changed <= AFTER_CHANGE
            or falling > FALLING
        )

    def _tell(
        self, found: list[tuple[str, Sign]], step: int, incident: bool
    ) -> tuple[EarlySign, ...]:
        records = self._records
        fresh = records - self._last_sign > AGAIN
        if fresh:
            self._told = 0.0
        if incident:
            self._last_sign, self._told = records, max(self._told, 1.0)
            return ()
        if not found:
            return ()
        name, worst = max(found, key=lambda item: item[1].score)
        guarded = self.guarded()
        bar = ABSURD if guarded else 1.0
        if self._told:
            self._last_sign = records
            bar = max(bar, WORSE * self._told)
        if worst.score < bar:
            return ()
        self._last_sign, self._told = records, worst.score
        return (
            EarlySign(
                precursor=name,
                step=step,
                since=worst.since,
                signal=worst.signal,
                score=worst.score,
                numbers=worst.numbers,
                others=tuple(other for other, sign in found if other != name and sign.score >= 1.0),
            ),
        )

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "precursors": {p.name: p.state_dict() for p in self.precursors},
            "records": self._records,
            "last_sign": self._last_sign,
            "told": self._told,
            "changed": self._changed,
            "log_rate": self._log_rate if math.isfinite(self._log_rate) else None,
            "warming": self._warming,
            "loss": self._loss.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`; the precursors are those of the state.

        Raises:
            ValueError: if it was written in another format.
        """
        if state.get("format") != FORMAT:
            raise ValueError(
                f"expected early-warning state of format {FORMAT}, got {state.get('format')!r}"
            )
        self.precursors = tuple(ALL[name]() for name in state["precursors"] if name in ALL)
        for precursor in self.precursors:
            precursor.load_state_dict(state["precursors"][precursor.name])
        self._records, self._last_sign = state["records"], state["last_sign"]
        self._told, self._changed = state["told"], state["changed"]
        rate = state["log_rate"]
        self._log_rate = math.nan if rate is None else rate
        self._warming = state["warming"]
        self._loss.load_state_dict(state["loss"])

"""Changes that a run announces by itself: they explain that signals move, and are no trouble.

===========  ==================================  ===================================================
change       seen in a record                    what it may move
===========  ==================================  ===================================================
``rate``     ``learning_rate`` by more than 5 %  all that training moves: norms, logits, log Z
``batch``    ``batch_size``                      gradients and all that Adam makes of them (their
                                                 noise averages out), largest values over the batch
``length``   ``tokens`` over ``batch_size``      every activation and gradient
``data``     ``data_phase``                      every activation and gradient
===========  ==================================  ===================================================

A rate that moves steadily, a per cent a record in a warm-up, is not a change a record: its speed
widens the bands instead. A restart (``attempt``) is not in the table: one that keeps its promise
changes no signal, and one that does not is a fault to be told.
"""

import math
from collections.abc import Mapping

from surefoot.detect.transforms import BATCH, DATA, LENGTH, RATE

RECORDS = {RATE: 24, BATCH: 32, LENGTH: 32, DATA: 48}
"""Records for which signals that a change may move are re-levelled quietly."""

RATE_STEP = 0.05
LEAST_RATE, MOST_RATE = 1e-30, 1e6
_SPEED_SPAN = 16


class Announced:
    """Follows what a run announces, a record at a time.

    Attributes:
        log_rate: logarithm of the newest positive learning rate; NaN before the first.
        speed: mean absolute change of it a record: 0.01 = a per cent.
        previous_log_rate: of the record before.
    """

    def __init__(self) -> None:
        self.log_rate = self.previous_log_rate = math.nan
        self.speed = 0.0
        self._batch = self._length = self._phase = math.nan
        self._told: tuple[object, ...] = ()  # of the record before: nothing new, nothing to do

    def update(self, values: Mapping[str, float | int]) -> tuple[str, ...]:
        """The changes that this record brings; usually none."""
        found: tuple[str, ...] = ()
        rate = values.get("learning_rate")
        self.previous_log_rate = self.log_rate
        if type(rate) is not float:
            rate = _number(rate)
        if LEAST_RATE < rate < MOST_RATE:  # what lies beyond is no learning rate
            before, self.log_rate = self.log_rate, math.log(rate)
            moved = abs(self.log_rate - before)
            if moved == moved:
                # Three times the usual speed: the first hundred records of a warm-up move by more
                # than 5 % each and are one change, not a hundred.
                if moved > max(RATE_STEP, 3.0 * self.speed):
                    found = (RATE,)
                self.speed += (min(moved, 0.2) - self.speed) / _SPEED_SPAN
        told = (values.get("batch_size"), values.get("tokens"), values.get("data_phase"))
        if told != self._told:
            self._told = told
            found += self._changed(*map(_number, told))
        return found

    def _changed(self, batch: float, tokens: float, phase: float) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        if batch > 0.0:
            if batch != self._batch and self._batch == self._batch:
                found += (BATCH,)
            self._batch = batch
            if tokens > 0.0:
                length = tokens / batch
                # Counted tokens: padding and masks make the mean length wander a little.
                if abs(length - self._length) > 0.25 * self._length:
                    found += (LENGTH,)
                    self._length = length
                elif self._length != self._length:
                    self._length = length
        if phase == phase:
            if phase != self._phase and self._phase == self._phase:
                found += (DATA,)
            self._phase = phase
        return found

    def state_dict(self) -> list[float | None]:
        """All state, as JSON values."""
        state = (
            self.log_rate,
            self.previous_log_rate,
            self.speed,
            self._batch,
            self._length,
            self._phase,
        )
        return [number if math.isfinite(number) else None for number in state]

    def load_state_dict(self, state: list[float | None]) -> None:
        """Take up the state of :meth:`state_dict`."""
        numbers = [math.nan if number is None else number for number in state]
        self.log_rate, self.previous_log_rate, self.speed = numbers[:3]
        self._batch, self._length, self._phase = numbers[3:]


def _number(value: object) -> float:
    """A finite number, or NaN."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan

"""What a run announces, and the quiet window in which the loss takes up its new level.

Four changes are announced by the records themselves: another data mixture (``data_phase``), another
sequence length (``tokens`` a ``batch_size``), another batch size, and a restart (``attempt``). The
first two move the loss itself, by a nat or two, and it may fall for a while after; the third moves
its noise, by the square root of the ratio (McCandlish et al. 2018, 1812.06162); the fourth may go
back to a step at which the loss ran higher. A change of the learning rate is not announced in this
sense: ten times the rate by a slip looks the same, so a loss that it throws out is told.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any, Literal

from surefoot.detect.incident import RISE_NATS, UNIFORM_NATS, UNTRAINED_NATS
from surefoot.detect.usability import number

WINDOW = 48
"""Records after a change of the data in which only an absurd loss is told."""
JUMP_RECORDS = 4
RECENT = 16
LENGTH_CHANGE = 1.2
LENGTH_STABLE = 0.02
LENGTH_FROM = 8
BATCH_CHANGE = 1.1
ABSURD = 12.0  # noise units
MARKS = 64
BATCH_STAYS = 64
SMALLEST = 1e-6
LARGEST_RATIO = 1e4

Kind = Literal["data", "batch"]


@dataclass(slots=True)
class Planned:
    """Reads the announcements, a record at a time.

    Attributes:
        phase: the newest ``data_phase``.
        batch: sequences a batch that the noise is known for.
        length: tokens a sequence.
        steady: records in a row with that length.
        larger: records in a row with a larger batch.
    """

    phase: float | None = None
    batch: float | None = None
    length: float | None = None
    steady: int = 0
    larger: int = 0

    def read(self, values: Mapping[str, Any]) -> tuple[Kind, float] | None:
        """The change that this record brings, and the factor on the noise to expect of it."""
        found: tuple[Kind, float] | None = None
        if "batch_size" in values:
            batch = number(values["batch_size"])
            if batch is not None and SMALLEST < batch < math.inf:
                found = self._batch(batch)
                if "tokens" in values:
                    tokens = number(values["tokens"])
                    if tokens is not None and SMALLEST < tokens < math.inf:
                        found = self._length(tokens / batch) or found
        if "data_phase" in values:
            phase = number(values["data_phase"])
            if phase is not None and math.isfinite(phase):
                if self.phase is not None and phase != self.phase:
                    found = ("data", found[1] if found else 1.0)
                self.phase = phase
        return found

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return asdict(self)

    def _batch(self, batch: float) -> tuple[Kind, float] | None:
        if self.batch is None:
            self.batch = batch
            return None
        ratio = self.batch / batch
        if ratio <= 1.0 / BATCH_CHANGE:
            # A larger batch is quieter, which is learned in time. Only one that stays is the batch
            # that the noise is known for: batches that vary would widen it at each return.
            self.larger += 1
            if self.larger >= BATCH_STAYS:
                self.batch, self.larger = batch, 0
            return ("batch", math.sqrt(ratio)) if self.larger == 1 else None
        self.larger = 0
        if ratio < BATCH_CHANGE:
            return None
        self.batch = batch
        return "batch", math.sqrt(min(ratio, LARGEST_RATIO))

    def _length(self, length: float) -> tuple[Kind, float] | None:
        before = self.length
        if before is None:
            self.length, self.steady = length, 1
        elif abs(length - before) <= LENGTH_STABLE * before:
            self.steady += 1
        else:
            # Lengths that vary from batch to batch are no plan: only a steady one can be changed.
            steady, self.steady, self.length = self.steady, 1, length
            ratio = max(length / before, before / length)
            if steady >= LENGTH_FROM and ratio >= LENGTH_CHANGE:
                return "data", math.sqrt(before / length)
        return None


@dataclass(slots=True)
class Window:
    """The loss and the gradient norm while they take up a new level.

    Attributes:
        level: of the loss before the change.
        noise: of the loss before the change.
        seen: records since.
        losses: the newest of them.
        grads: the newest logarithms of the gradient norm.
    """

    level: float
    noise: float
    seen: int = 0
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    grads: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, loss: float | None, log_grad: float | None) -> None:
        """A record within the window."""
        self.seen += 1
        if loss is not None:
            self.losses.append(loss)
        if log_grad is not None:
            self.grads.append(log_grad)

    def absurd(self, loss: float, uniform: float | None) -> bool:
        """Whether this loss, not yet added, cannot be what was planned.

        That is a model that knows nothing any more, or, once the jump is over, half a nat and
        twelve noise units above where the loss then ran.
        """
        if uniform is not None and self.level < uniform - UNIFORM_NATS:
            newest = [loss, *list(self.losses)[-2:]]
            if len(newest) == 3 and min(newest) >= uniform - UNTRAINED_NATS:
                return True
        if self.seen < JUMP_RECORDS or len(self.losses) < JUMP_RECORDS:
            return False
        return loss - self.ran() >= max(RISE_NATS, ABSURD * self.noise)

    def ran(self) -> float:
        """Where the loss ran within the window: median of the newest five."""
        return median(list(self.losses)[-5:]) if self.losses else self.level

    def over(self) -> bool:
        """Whether the new level is taken up."""
        return self.seen >= WINDOW

    def rises(self) -> bool:
        """Whether the loss, at the end of the window, still climbs and is well above the old."""
        losses = list(self.losses)
        if len(losses) < RECENT:
            return False
        half = RECENT // 2
        climb = median(losses[half:]) - median(losses[:half])
        return climb > max(3.0 * self.noise, 0.1) and losses[-1] - self.level >= RISE_NATS

    def found(self) -> tuple[float, float]:
        """The new level of the loss, and the noise about it."""
        level = fmean(self.losses)
        spread = 1.25 * fmean(abs(value - level) for value in self.losses)
        return level, max(self.noise, spread)

    def state_dict(self) -> list[Any]:
        """All state, as JSON values."""
        return [self.level, self.noise, self.seen, list(self.losses), list(self.grads)]

    @classmethod
    def from_state(cls, state: list[Any]) -> "Window":
        """Rebuild from :meth:`state_dict`."""
        window = cls(*state[:3])
        window.losses.extend(state[3])
        window.grads.extend(state[4])
        return window


@dataclass(slots=True)
class Marks:
    """Where the loss ran at past steps: at most 64 of them, the finer the shorter the run.

    Attributes:
        every: records between two marks.
        count: records since the newest.
        marks: step, level of the loss, level of the log gradient norm.
    """

    every: int = 8
    count: int = 0
    marks: list[tuple[int, float, float]] = field(default_factory=list)

    def add(self, step: int, loss: float, log_grad: float) -> None:
        """A healthy record."""
        self.count += 1
        if self.count < self.every:
            return
        self.count = 0
        self.marks.append((step, loss, log_grad))
        if len(self.marks) > MARKS:
            self.marks = self.marks[1::2]
            self.every *= 2

    def back_to(self, step: int) -> tuple[float, float] | None:
        """Levels just before ``step``, and forget what came after; None if that is not known."""
        later = [mark for mark in self.marks if mark[0] >= step]
        self.marks = [mark for mark in self.marks if mark[0] < step]
        self.count = 0
        if not self.marks or not later:
            return None
        (first, loss, grad), (last, loss_then, grad_then) = self.marks[-1], later[0]
        part = (step - first) / max(1, last - first)
        return loss + part * (loss_then - loss), grad + part * (grad_then - grad)

    def state_dict(self) -> list[Any]:
        """All state, as JSON values."""
        return [self.every, self.count, [list(mark) for mark in self.marks]]

    @classmethod
    def from_state(cls, state: list[Any]) -> "Marks":
        """Rebuild from :meth:`state_dict`."""
        every, count, marks = state
        return cls(every, count, [(step, loss, grad) for step, loss, grad in marks])

"""What of a record can be used: placeholders, masked NaNs and fp16 overflows are told apart first.

A trainer's log is not a measurement. Ranks that compute no loss print -1, a norm that is never
computed prints 0.000, a logger may put 0.0 for a loss that was NaN, and fp16 training meets
infinite gradients as a matter of course while its loss scale settles. None of these may enter a
baseline or pass for training gone wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

ENOUGH = 20
ENOUGH_AT_END = 3
STORM = 10
SETTLING = 40
SCALE_MINIMUM = 1.0
LARGEST = 1e6
_SAME = 1e-9


class Reading(NamedTuple):
    """The usable part of a record.

    Attributes:
        loss: nats, or None.
        log_grad: natural logarithm of the gradient norm, or None.
        rate: learning rate, or None.
        nonfinite: the signal that was not finite and should have been, or None.
        value: that signal's value as read, for the message.
        skipped: whether the trainer says that this update was skipped.
        evaluated: whether the weights after this update were evaluated, and soundly.
    """

    loss: float | None
    log_grad: float | None
    rate: float | None
    nonfinite: str | None
    value: float
    skipped: bool = False
    evaluated: bool = False


def number(value: Any) -> float | None:
    """``value`` as a float; None if absent or not a number."""
    if value is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return None


def usable_loss(loss: Any, grad_norm: Any = None) -> float | None:
    """The loss of one row if it is a measurement; None for a placeholder or a masked NaN.

    A loss of exactly -1 is printed by ranks that compute none; one of exactly 0 beside a gradient
    norm that is not finite was NaN before the logger filtered it. Neither is a best or a last loss.
    """
    value, grad = number(loss), number(grad_norm)
    if value is None or not math.isfinite(value) or value == -1.0:
        return None
    return None if value == 0.0 and grad is not None and not math.isfinite(grad) else value


def _finite(value: Any) -> bool:
    found = number(value)
    return found is not None and math.isfinite(found)


@dataclass(slots=True)
class Usability:
    """Counts what was seen of each placeholder, and says so once (LOG001 ... LOG004).

    Attributes:
        grad_zero: records whose gradient norm was exactly 0.
        grad_zero_first: step of the first of them.
        grad_real: whether a finite gradient norm other than 0 was ever seen.
        loss_first: the first finite loss.
        loss_moved: whether the loss ever differed from it.
        minus_one: records whose loss was exactly -1.
        minus_one_first: step of the first of them.
        masked: records with a loss of exactly 0 and a gradient norm that was not finite.
        masked_first: step of the first of them.
        zero: records with a loss of exactly 0 after a healthy one, the gradient norm not NaN.
        zero_first: step of the first of them.
        skips: overflow steps in a row.
        good: whether a finite gradient norm was ever seen.
        told: codes already told.
        last_step: the newest step.
    """

    grad_zero: int = 0
    grad_zero_first: int = 0
    grad_real: bool = False
    loss_first: float | None = None
    loss_moved: bool = False
    minus_one: int = 0
    minus_one_first: int = 0
    masked: int = 0
    masked_first: int = 0
    zero: int = 0
    zero_first: int = 0
    skips: int = 0
    good: bool = False
    told: str = ""
    last_step: int = 0

    def read(self, step: int, values: Mapping[str, Any], level: float | None) -> Reading:
        """Sort out one record; ``level`` is where the loss runs, if known."""
        self.last_step = step
        loss, grad = number(values.get("loss")), number(values.get("grad_norm"))
        rate = number(values.get("learning_rate"))
        if loss is not None:
            loss = self._loss(step, loss, grad, level)
        log_grad: float | None = None
        grad_broken = False
        if grad is not None:
            if not math.isfinite(grad):
                grad_broken = True
            else:
                self.good, self.skips = True, 0
                if grad > 0.0:
                    self.grad_real, log_grad = True, math.log(grad)
                elif grad == 0.0:
                    self.grad_zero += 1
                    if self.grad_zero == 1:
                        self.grad_zero_first = step
        skipped = "update_skipped" in values and number(values["update_skipped"]) == 1.0
        evaluated = "validation_loss" in values and _finite(values["validation_loss"])
        if loss is not None and not math.isfinite(loss):
            return Reading(None, log_grad, rate, "loss", loss, skipped, evaluated)
        if grad_broken:
            assert grad is not None
            nonfinite = None if self._normal_overflow(values) else "grad_norm"
            return Reading(loss, None, rate, nonfinite, grad, skipped, evaluated)
        return Reading(loss, log_grad, rate, None, 0.0, skipped, evaluated)

    def _loss(
        self, step: int, loss: float, grad: float | None, level: float | None
    ) -> float | None:
        """The loss as it should be taken: None for a placeholder, NaN for a masked NaN."""
        if not math.isfinite(loss):
            return loss
        if loss == -1.0:
            # A mean cross-entropy is never negative: ranks without the loss print this.
            self.minus_one += 1
            if self.minus_one == 1:
                self.minus_one_first = step
            return None
        if loss == 0.0 and grad is not None and not math.isfinite(grad):
            self.masked += 1
            if self.masked == 1:
                self.masked_first = step
            return math.nan
        if loss == 0.0 and level is not None and level > 0.1:
            self.zero += 1
            if self.zero == 1:
                self.zero_first = step
            return None
        if self.loss_first is None:
            self.loss_first = loss
        elif abs(loss - self.loss_first) > _SAME * max(1.0, abs(self.loss_first)):
            self.loss_moved = True
        return min(max(loss, -LARGEST), LARGEST)

    def _normal_overflow(self, values: Mapping[str, Any]) -> bool:
        """Whether a gradient that is not finite is fp16 loss scaling doing its work."""
        scale, skipped = number(values.get("loss_scale")), number(values.get("update_skipped"))
        self.skips += 1
        if scale is None or skipped == 0 or not scale > SCALE_MINIMUM:
            return False
        # From 2^32 a first scale may need thirty halvings; later, ten in a row are a storm.
        return self.skips < (STORM if self.good else SETTLING)

    def news(self, at_end: bool = False) -> list[tuple[str, dict[str, Any]]]:
        """Codes to tell now, each once, with its evidence; ``at_end`` needs fewer records."""
        enough = ENOUGH_AT_END if at_end else ENOUGH
        found: list[tuple[str, dict[str, Any]]] = []
        if (
            self.grad_zero >= enough
            and not self.grad_real
            and (self.loss_moved or self.loss_first is None)
        ):
            self._tell(found, "LOG001", "grad_norm", 0.0, self.grad_zero, self.grad_zero_first)
        if self.minus_one >= enough:
            self._tell(found, "LOG002", "loss", -1.0, self.minus_one, self.minus_one_first)
        if self.masked >= 1:
            self._tell(found, "LOG003", "loss", 0.0, self.masked, self.masked_first)
        if self.zero >= (ENOUGH_AT_END if at_end else STORM):
            self._tell(found, "LOG004", "loss", 0.0, self.zero, self.zero_first)
        return found

    def _tell(
        self,
        found: list[tuple[str, dict[str, Any]]],
        code: str,
        signal: str,
        value: float,
        count: int,
        first: int,
    ) -> None:
        if code in self.told:
            return
        evidence = {
            "signal": signal,
            "value": value,
            "records": count,
            "first_step": first,
            "last_step": self.last_step,
        }
        found.append((code, evidence))

    def mark_told(self, code: str) -> None:
        """Do not tell ``code`` again."""
        self.told = f"{self.told} {code}".strip()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

"""CKP003: a step that no optimizer can have made: the weights were replaced, or never loaded."""

import math
from collections.abc import Sequence
from typing import Any

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding, TrainSpec

STILL = 1e-6
"""Summed learning rates under which Adam's updates do not move a loss by a nat: each changes a
weight by about the rate (Kingma & Ba 2014, 1412.6980, section 2.1), weights are about 1e-2, and a
change of 1e-4 of each moves the outputs of a deep network by less than a tenth of themselves."""
JUMP = 1.0
HUGE = 5.0
FRESH = 5.0
UNTRAINED = 9.0
"""Least loss of a fresh model where the vocabulary is not known: ln 8100."""
NEAR = 1.5
LEARNED = 2.0
EARLY = 3
STAYS = 3
KEPT = 0.6
SETTLED = 8
NOISE = 8.0
"""Mean deviations that a rise must be where it is told after three records."""
SPAN = 16
BACK = 0.25
"""Share of the steps so far up to which a restart is a new beginning, not a checkpoint's."""
GAP = 20
EXAMPLES = "10.4 for 32 000 tokens, 11.8 for 128 000"


class WeightsReplaced(Plain):
    """Holds each rise of the loss against what the updates before it can have done.

    Two kinds of step are impossible. The loss jumps by a nat or more while the learning rates since
    the record before sum to less than 1e-6. And the first loss of a restart, which is of the
    weights as loaded, is that of a fresh model although the run had learned by two nats.

    Args:
        spec: what the run was asked to do; its vocabulary gives the loss of a fresh model, ln V.
    """

    name = "weights-replaced"
    fields = (
        "uniform",
        "step",
        "attempt",
        "level",
        "rate",
        "records",
        "learned",
        "spread",
        "high",
        "told",
    )

    def __init__(self, spec: TrainSpec | None = None) -> None:
        vocab = None if spec is None else spec.architecture.vocab_size
        self.uniform = math.log(vocab) if vocab is not None and vocab > 1 else None
        self.step: int | None = None
        self.attempt = 0
        self.level: float | None = None
        self.rate: float | None = None
        self.records = 0
        self.learned = 0
        self.spread = 0.0
        self.high: list[Any] | None = None
        self.told = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the loss of a row."""
        values = row.values
        loss, rate = finite(values, "loss"), finite(values, "learning_rate")
        resumed = self.step is not None and (row.attempt > self.attempt or row.step <= self.step)
        if resumed:
            self.records, self.told, self.high = 0, False, None
        if loss is None or loss <= 0.0:
            return NOTHING
        found: Sequence[Finding] = NOTHING
        if self.uniform is None and self.step is None and row.step <= 1 and loss >= FRESH:
            self.uniform = loss  # a fresh model guesses uniformly; a loaded one never gets there
        if self.step is not None and row.step <= BACK * self.step:
            # What it was trained to is undone, and the level of these steps is not known here.
            self.level, self.high, self.learned, self.records = None, None, 0, 0
        if self.level is not None and self.step is not None and not self.told:
            if resumed:
                found = self._fresh(row, loss)
            else:
                found = self._impossible(row, loss, rate)
        if self.high is None:
            self._learn(loss)
        self.records += 1
        if rate is not None:
            self.rate = rate
        self.step, self.attempt = row.step, row.attempt
        return found

    def _learn(self, loss: float) -> None:
        self.learned += 1
        share = 1.0 / min(self.learned, SPAN)
        if self.level is not None:
            self.spread += (abs(loss - self.level) - self.spread) * share
        self.level = loss if self.level is None else self.level + (loss - self.level) * share

    def _fresh(self, row: Row, loss: float) -> Sequence[Finding]:
        """The first loss of a restart, at the level of a fresh model."""
        uniform, before, last = self.uniform, self.level, self.step
        if uniform is None or before is None or last is None:
            return NOTHING
        if before > uniform - LEARNED or abs(loss - uniform) > 1.0 or loss - before < JUMP:
            return NOTHING
        if row.step - last > GAP:
            return NOTHING  # many updates lie between: it may have diverged
        why = "the first loss of a restart is of the weights as loaded"
        return [self._finding(row, loss, before, None, why, row.step)]

    def _impossible(self, row: Row, loss: float, rate: float | None) -> Sequence[Finding]:
        assert self.level is not None
        assert self.step is not None
        if self.high is not None:
            return self._stays(row, loss)
        jump = loss - self.level
        if jump < JUMP:
            return NOTHING
        rates = [r for r in (rate, self.rate) if r is not None]
        if not rates or min(rates) <= 0.0:
            return NOTHING
        moved = max(rates) * (row.step - self.step)
        if moved > STILL:
            return NOTHING
        fresh = self.uniform is not None and abs(loss - self.uniform) <= NEAR
        if self.records < EARLY:  # the first updates after loading
            lowest = UNTRAINED if self.uniform is None else self.uniform - NEAR
            learned = self.uniform is None or self.level < self.uniform - LEARNED
            if loss >= lowest and learned and (fresh or jump >= HUGE):
                why = self._why(moved)
                return [self._finding(row, loss, self.level, moved, why, row.step)]
        elif self.learned >= SETTLED and jump >= NOISE * self.spread:
            self.high = [
                row.step,
                self.level,
                moved,
                1,
                jump,
            ]  # a bad batch is gone with the next
        return NOTHING

    def _stays(self, row: Row, loss: float) -> Sequence[Finding]:
        assert self.high is not None
        step, before, moved, count, jump = self.high
        if loss - before < KEPT * jump:
            self.high = None
            return NOTHING
        self.high[3] = count + 1
        if count + 1 < STAYS:
            return NOTHING
        self.high = None
        return [self._finding(row, loss, before, moved, self._why(moved), step)]

    def _why(self, moved: float) -> str:
        return (
            f"an Adam step changes each weight by about the learning rate, {moved:.2g} in all, "
            "so no update did this"
        )

    def _finding(
        self,
        row: Row,
        loss: float,
        before: float,
        moved: float | None,
        why: str,
        step: int,
    ) -> Finding:
        self.told = True
        level = ""
        if self.uniform is not None and abs(loss - self.uniform) <= NEAR:
            level = f", the level of an untrained model (ln V = {self.uniform:.4g})"
        elif loss - before >= HUGE:
            level = f", as high as an untrained model (ln V is {EXAMPLES})"
        return finding(
            "CKP003",
            f"the loss went from {before:.4g} to {loss:.4g} nats at step {step}{level}: {why}: "
            "the weights were replaced",
            row,
            first=step,
            cause="resume-state",
            signal="loss",
            evidence={
                "loss": loss,
                "before": before,
                "rates_summed": moved,
                "uniform": self.uniform,
            },
            actions=(
                f"stop at step {row.step}: it trains other weights than those loaded",
                "refresh the optimizer's fp32 master weights after the load, or load before the "
                "optimizer is built: masters made of the first, random weights are copied over the "
                "loaded ones by the first step",
                "after loading compare masters with weights, and the loss of one batch with the "
                "one it had",
            ),
            references=(
                "EleutherAI/gpt-neox issue 947; DeeperSpeed PR 56; DeepSpeed PR 4141",
                "Kingma & Ba 2014, 1412.6980 (section 2.1: bound of a step)",
            ),
        )

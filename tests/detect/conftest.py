"""Synthetic runs, and a detector fed with them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from surefoot.detect import LossDetector
from surefoot.records import Finding, StepRecord, Verdict

VOCABULARY = 50304


@dataclass
class Told:
    """What a detector said of a stretch of a run."""

    detector: LossDetector
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        return [finding for verdict in self.verdicts for finding in verdict.findings]

    @property
    def codes(self) -> list[tuple[int, str]]:
        """``(step, code)`` of all that was told, in order."""
        return [(v.step, finding.code) for v in self.verdicts for finding in v.findings]

    @property
    def halts(self) -> list[int]:
        return [verdict.step for verdict in self.verdicts if verdict.halt]

    def one(self, code: str) -> Finding:
        """The only finding of this code."""
        (finding,) = (finding for finding in self.findings if finding.code == code)
        return finding


def records(losses, grads=None, *, first=1, every=1, attempt=0, **columns):
    """Records of these columns; None is a value that was not logged."""
    columns = {"loss": losses, "grad_norm": grads, **columns}
    given = {name: list(column) for name, column in columns.items() if column is not None}
    length = max(len(column) for column in given.values())
    return [
        StepRecord(
            step=first + every * row,
            attempt=attempt,
            values={name: c[row] for name, c in given.items() if c[row] is not None},
        )
        for row in range(length)
    ]


@pytest.fixture
def make_records():
    return records


@pytest.fixture
def feed():
    """``feed(losses, grads, ...)``: the columns through a detector, a new one by default."""

    def run(losses: Sequence | None, grads: Sequence | None = None, *, detector=None, **columns):
        told = Told(detector or LossDetector(vocab_size=VOCABULARY))
        for record in records(losses, grads, **columns):
            told.verdicts.append(told.detector.update(record))
        return told

    return run


@pytest.fixture
def curve():
    """``curve(steps)``: from ln V down to about 2.6 nats, without noise."""

    def make(steps: int, floor: float = 2.2) -> np.ndarray:
        t = np.arange(1, steps + 1, dtype=float)
        late = floor + (7.3 - floor) * (1 + t / 60) ** -0.5
        return late + (math.log(VOCABULARY) - 7.3) * np.exp(-t / 20)

    return make


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def gradient():
    """``gradient(steps, rng)``: a gradient norm that falls to 0.3, with log-normal noise."""

    def make(steps: int, rng: np.random.Generator, spread: float = 0.15) -> np.ndarray:
        course = 0.3 + 4.7 * np.exp(-np.arange(steps) / 150)
        return course * np.exp(spread * rng.standard_normal(steps))

    return make

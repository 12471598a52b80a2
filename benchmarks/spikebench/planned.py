"""Changes that a healthy run makes on purpose, and that look like trouble."""

# ruff: noqa: D102  (what a method of a Change does is said there)

from collections.abc import Mapping, Sequence

import torch
from faults import generator
from tiny import Change, Tiny
from torch import Tensor


class Rewarm(Change):
    """The rate falls to a share at ``first`` and climbs back linearly."""

    def __init__(self, first: int, low: float, over: int) -> None:
        super().__init__(first)
        self.low, self.over = low, over

    def rate(self, run: Tiny, step: int, rate: float) -> float:
        done = min(1.0, (step - self.first) / self.over)
        return rate * (self.low + (1 - self.low) * done)


class Sizes(Change):
    """Batch sizes or sequence lengths by step: the last entry that has begun counts."""

    def __init__(
        self, batches: Sequence[tuple[int, int]] = (), lengths: Sequence[tuple[int, int]] = ()
    ) -> None:
        super().__init__(1)
        self.batches, self.lengths = tuple(batches), tuple(lengths)

    def size(self, run: Tiny, step: int, size: int, length: int) -> tuple[int, int]:
        sizes = [value for begin, value in self.batches if begin <= step]
        lengths = [value for begin, value in self.lengths if begin <= step]
        return (sizes or [size])[-1], (lengths or [length])[-1]


class Mixture(Change):
    """Shares of prose by step, drawn sample by sample; told as ``data_phase`` if ``announced``."""

    def __init__(self, phases: Sequence[tuple[int, float]], announced: bool) -> None:
        super().__init__(1)
        self.phases, self.announced = tuple(phases), announced

    def phase(self, step: int) -> int:
        """Number of the phase at a step."""
        return sum(begin <= step for begin, _ in self.phases) - 1

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        share = self.phases[self.phase(step)][1]
        rows, length = batch.shape
        prose = run.text.batch("prose", run.seed, run.consumed, rows, length - 1)
        drawn = torch.rand(rows, generator=generator(run.seed, step, 11)) < share
        return torch.where(drawn[:, None], prose, batch)

    def values(self, run: Tiny, step: int) -> Mapping[str, float | int]:
        return {"data_phase": self.phase(step)} if self.announced else {}


class LoudBatches(Change):
    """Now and then a whole batch of the other domain: gradients with a heavy tail."""

    def __init__(self, share: float) -> None:
        super().__init__(1)
        self.share = share

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        if float(torch.rand((), generator=generator(run.seed, step, 13))) >= self.share:
            return batch
        rows, length = batch.shape
        return run.text.batch("prose", run.seed, run.consumed, rows, length - 1)


class Evaluations(Change):
    """A validation loss every so many steps."""

    def __init__(self, every: int) -> None:
        super().__init__(1)
        self.every = every

    def values(self, run: Tiny, step: int) -> Mapping[str, float | int]:
        return {"validation_loss": run.validation_loss()} if step % self.every == 0 else {}

"""What SpikeBench plants in a run, made of the faults that users have in surefoot.testing."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from text import VOCAB_SIZE
from tiny import Change, Tiny
from torch import Tensor, nn

# ruff: noqa: D102  (what a method of a Change does is said there)
from surefoot.model import LossSums, loss_sums
from surefoot.model.attention import Attention
from surefoot.testing import (
    StaleRank,
    corrupt_batch,
    drop_gradients,
    feed_inputs,
    flip_bit,
    flip_gradient_bit,
    forget_moments,
    fp8_linears,
    put_weights_back,
    replace_gradients,
    reset_step_counter,
)


def generator(*numbers: int) -> torch.Generator:
    """Random numbers that depend on these alone."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 7) % 2**62
    return torch.Generator().manual_seed(seed)


class RateTimes(Change):
    """The rate times a factor, reached geometrically within ``over`` steps."""

    def __init__(self, first: int, last: int | None, factor: float, over: int = 1) -> None:
        super().__init__(first, last)
        self.factor, self.over = factor, over

    def rate(self, run: Tiny, step: int, rate: float) -> float:
        done = min(1.0, (step - self.first + 1) / self.over)
        return float(rate * self.factor**done)


class Resume(Change):
    """A restart at ``first``: the attempt goes up by one. Healthy if nothing else happens."""

    def before(self, run: Tiny, step: int) -> None:
        if step == self.first:
            run.attempt += 1
            self.resumed(run)

    def resumed(self, run: Tiny) -> None:
        """What the restart gets wrong."""


class ScheduleRestarted(Resume):
    """The schedule begins again at a resume; with it, its warm-up if ``warm``."""

    def __init__(self, first: int, warm: bool) -> None:
        super().__init__(first)
        self.warm = warm

    def rate(self, run: Tiny, step: int, rate: float) -> float:
        own = step - self.first + 1
        return run.planned_rate(own if self.warm else own + run.setting.warmup)


class MomentsLost(Resume):
    """The optimizer's state is lost at a resume; only the second moment if ``second``."""

    def __init__(self, first: int, second: bool = False) -> None:
        super().__init__(first)
        self.second = second

    def resumed(self, run: Tiny) -> None:
        if not self.second:
            forget_moments(run.optimizer)
            return
        for state in run.optimizer.state.values():
            state["exp_avg_sq"].zero_()


class CounterReset(Resume):
    """Adam's step counter starts again at a resume, the moments stay."""

    def resumed(self, run: Tiny) -> None:
        reset_step_counter(run.optimizer)


class LoaderRestarted(Resume):
    """The data position is 0 again after a resume."""

    def resumed(self, run: Tiny) -> None:
        run.consumed = 0


class WeightsStale(Resume):
    """Weights of another time come back at a resume, the optimizer's state is today's."""

    def __init__(self, first: int, weights: Mapping[str, Tensor]) -> None:
        super().__init__(first)
        self.weights = weights

    def resumed(self, run: Tiny) -> None:
        put_weights_back(run.model, self.weights)


class Corrupt(Change):
    """Damaged batches; with ``labels`` only the targets are damaged."""

    def __init__(
        self, first: int, last: int, damage: Any, share: float = 1.0, labels: bool = False
    ) -> None:
        super().__init__(first, last)
        self.damage, self.share, self.labels = damage, share, labels
        self._inputs: Tensor | None = None

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        self._inputs = batch[:, :-1]
        # One token is one token for the whole region: a file of zeros.
        draw = generator(run.seed, self.first if self.damage == "one-token" else step)
        return corrupt_batch(
            batch, self.damage, vocab_size=VOCAB_SIZE, generator=draw, share=self.share
        )

    def around(self, run: Tiny, step: int, batch: Tensor) -> AbstractContextManager[Any]:
        assert self._inputs is not None
        return feed_inputs(run.model, self._inputs) if self.labels else contextlib.nullcontext()


class RareTokens(Change):
    """A block of tokens that the run has hardly ever seen, at a share of the positions."""

    def __init__(self, first: int, last: int, share: float, kinds: int = 24) -> None:
        super().__init__(first, last)
        self.share, self.kinds = share, kinds

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        counts = torch.bincount(run.text.pools[run.domain].flatten(), minlength=VOCAB_SIZE)
        rare = counts.argsort(stable=True)[: self.kinds]
        draw = generator(run.seed, step, 5)
        chosen = rare[torch.randint(0, self.kinds, batch.shape, generator=draw)]
        # The same few sentences of them in each step: a burst points the same way every time.
        places = torch.rand(batch.shape, generator=draw) < self.share
        return torch.where(places, chosen, batch)


class NewData(Change):
    """Samples outside those that a quiet run repeats."""

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        size, length = batch.shape
        return run.text.batch(run.domain, run.seed, 8000 + run.consumed, size, length - 1)


class FlipWeight(Change):
    """One bit of one weight, or of neighbours in one row of memory."""

    def __init__(self, first: int, name: str, bit: int, count: int = 1) -> None:
        super().__init__(first, first)
        self.name, self.bit, self.count = name, bit, count

    def tensor(self, run: Tiny) -> Tensor:
        """Whose bit is turned over."""
        return run.model.get_parameter(self.name)

    def before(self, run: Tiny, step: int) -> None:
        tensor = self.tensor(run)
        start = _index(run, tensor, step)
        for index in range(start, min(start + self.count, tensor.numel())):
            flip_bit(tensor.data, index, self.bit)


class FlipMoment(FlipWeight):
    """One bit of one element of a moment."""

    def __init__(self, first: int, name: str, bit: int, count: int, moment: str) -> None:
        super().__init__(first, name, bit, count)
        self.moment = moment

    def tensor(self, run: Tiny) -> Tensor:
        moment: Tensor = run.optimizer.state[run.model.get_parameter(self.name)][self.moment]
        return moment


class FlipGradient(Change):
    """One bit of one element of a gradient, at one step or at every one."""

    def __init__(self, first: int, last: int, name: str, bit: int) -> None:
        super().__init__(first, last)
        self.name, self.bit = name, bit

    def around(self, run: Tiny, step: int, batch: Tensor) -> AbstractContextManager[Any]:
        parameter = run.model.get_parameter(self.name)
        return flip_gradient_bit(parameter, _index(run, parameter, self.first), self.bit)


def _index(run: Tiny, tensor: Tensor, step: int) -> int:
    return int(torch.randint(0, tensor.numel(), (), generator=generator(run.seed, step, 3)))


class LostBucket(Change):
    """The gradient of some parameters is lost, or a share of it."""

    def __init__(self, first: int, last: int | None, parts: Sequence[str], keep: float) -> None:
        super().__init__(first, last)
        self.parts, self.keep = tuple(parts), keep

    def around(self, run: Tiny, step: int, batch: Tensor) -> AbstractContextManager[Any]:
        lost = [p for name, p in run.model.named_parameters() if name.startswith(self.parts)]
        return drop_gradients(lost, self.keep)


class StaleSecondRank(Change):
    """The second half of each batch is computed by a rank with other weights."""

    def __init__(self, first: int, last: int | None, weights: Mapping[str, Tensor]) -> None:
        super().__init__(first, last)
        self.weights = dict(weights)
        self._rank: StaleRank | None = None
        self._sums: LossSums | None = None

    def batch(self, run: Tiny, step: int, batch: Tensor) -> Tensor:
        self._half = batch[batch.shape[0] // 2 :]
        return batch[: batch.shape[0] // 2]

    def around(self, run: Tiny, step: int, batch: Tensor) -> AbstractContextManager[Any]:
        if self._rank is None:
            self._rank = StaleRank(run.model, self.weights)

        def backward(module: nn.Module) -> None:
            sums = loss_sums(module(self._half[:, :-1]), self._half[:, 1:])
            objective = sums.cross_entropy + run.setting.z_loss * sums.log_z_squared
            torch.autograd.backward(objective / sums.tokens)
            self._sums = LossSums._make(value.detach() for value in sums)

        return replace_gradients(self._rank.gradients(backward), weight=0.5)

    def sums(self, run: Tiny, step: int, sums: LossSums) -> LossSums:
        assert self._sums is not None
        added = LossSums._make(a + b for a, b in zip(sums, self._sums, strict=True))
        largest = torch.maximum(sums.log_z_abs_max, self._sums.log_z_abs_max)
        return added._replace(log_z_abs_max=largest)


class EpsRaised(Change):
    """Adam's eps becomes another one."""

    def __init__(self, first: int, eps: float) -> None:
        super().__init__(first)
        self.eps = eps

    def before(self, run: Tiny, step: int) -> None:
        for group in run.optimizer.param_groups:
            group["eps"] = self.eps


class AttentionPull(Change):
    """Queries and keys grow by a small share each step, as they do in large models."""

    def __init__(self, first: int, last: int | None, share: float, layers: Sequence[int]) -> None:
        super().__init__(first, last)
        self.share, self.layers = share, tuple(layers)

    @torch.no_grad()
    def before(self, run: Tiny, step: int) -> None:
        for index in self.layers:
            attention = run.model.get_submodule(f"layers.{index}.attention")
            assert isinstance(attention, Attention)
            if attention.q_norm is not None and attention.k_norm is not None:
                pulled: tuple[Tensor, ...] = (attention.q_norm.weight, attention.k_norm.weight)
            else:
                pulled = (attention.wq.weight, attention.wk.weight)
            for weight in pulled:
                weight.mul_(1 + self.share)


class LogitPull(Change):
    """The z-loss with its sign reversed: log Z is pushed away from 0."""

    def __init__(self, first: int, last: int | None, weight: float) -> None:
        super().__init__(first, last)
        self.weight = weight

    def before(self, run: Tiny, step: int) -> None:
        if step == self.first:
            run.set_step(z_loss_weight=-self.weight)
        elif step == self.last:
            run.set_step(z_loss_weight=run.setting.z_loss)


class ScaleStorm(Change):
    """The loss scale is multiplied every ``every`` steps: it overflows again and again."""

    def __init__(self, first: int, last: int, factor: float, every: int) -> None:
        super().__init__(first, last)
        self.factor, self.every = factor, every

    def before(self, run: Tiny, step: int) -> None:
        assert run.scaler is not None
        if (step - self.first) % self.every == 0:
            run.scaler.scale.mul_(self.factor)


class Fp8(Change):
    """All matrices of the layers in emulated fp8 with fixed scales."""

    def __init__(
        self, first: int, input_scale: float, weight_scale: float, grad_scale: float
    ) -> None:
        super().__init__(first)
        self.scales = {
            "input_scale": input_scale, "weight_scale": weight_scale, "grad_scale": grad_scale,
        }  # fmt: skip

    def around(self, run: Tiny, step: int, batch: Tensor) -> AbstractContextManager[Any]:
        linears = [m for m in run.model.layers.modules() if isinstance(m, nn.Linear)]
        return fp8_linears(linears, **self.scales)

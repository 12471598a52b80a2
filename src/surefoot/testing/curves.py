"""Healthy synthetic training curves of many kinds: volume for false-alarm rates, without a run.

::

    import numpy as np
    from surefoot.testing.curves import KINDS, records

    make, steps, runs = KINDS["heavy-tailed loss, t4"]
    for record in records(make(steps, np.random.default_rng(0))):
        verdict = detector.update(record)      # whatever it tells is a false incident

Every kind is a full curve from ln V down, with loss in nats and gradient norm; what differs is the
noise, what is logged, and what was done to the run on purpose.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.records import StepRecord

VOCABULARY = 50304
"""Tokens of the pretended model: every curve begins near ln V."""

Array = NDArray[np.float64]
Make = Callable[[int, np.random.Generator], "Healthy"]

INTERQUARTILE = {3: 0.7649, 4: 0.7407, 5: 0.7267}
"""Upper quartile of Student's t by degrees of freedom; that of a normal is 0.6745."""


@dataclass
class Healthy:
    """A healthy run: columns of equal length, NaN where a value is missing.

    Attributes:
        loss: nats, shape (steps,).
        grad: global gradient norm, shape (steps,).
        rate: learning rate, shape (steps,); None if it is not logged.
        every: steps from one record to the next.
    """

    loss: Array
    grad: Array
    rate: Array | None = None
    every: int = 1


def curve(steps: int, rng: np.random.Generator) -> Array:
    """A loss without noise, from ln V: a steep fall to the unigram loss, then a power law.

    Args:
        steps: length.
        rng: draws the floor (1.8 to 2.6 nats), the power and the pace.

    Returns:
        nats, shape (steps,).
    """
    t = np.arange(1, steps + 1, dtype=float)
    floor = rng.uniform(1.8, 2.6)
    power = rng.uniform(0.25, 0.4)
    warm = rng.uniform(20, 300)
    late = floor + (7.3 - floor) * (1 + t / warm) ** -power
    fall: Array = late + (math.log(VOCABULARY) - 7.3) * np.exp(-t / (warm / 3))
    return fall


def autoregressive(noise: Array, correlation: float) -> Array:
    """AR(1) of unit variance driven by ``noise`` of unit variance, shape (steps,)."""
    out = np.empty_like(noise)
    gain, last = math.sqrt(1 - correlation**2), noise[0]
    for index, value in enumerate(noise):
        last = correlation * last + gain * value
        out[index] = last
    return out


def student(rng: np.random.Generator, degrees: float, steps: int) -> Array:
    """Student's t of 3, 4 or 5 degrees, scaled to the interquartile range of a normal."""
    scale = INTERQUARTILE[int(degrees)] / 0.6745
    return np.asarray(rng.standard_t(degrees, steps) / scale)


def gradient(steps: int, rng: np.random.Generator, spread: float = 0.15) -> Array:
    """Gradient norm: falls from 5 to about 0.3, log-normal noise, slightly correlated."""
    t = np.arange(1, steps + 1, dtype=float)
    course = 0.3 + 4.7 * np.exp(-t / 150)
    norm: Array = course * np.exp(spread * autoregressive(rng.standard_normal(steps), 0.3))
    return norm


def white(sigma: float) -> Make:
    """Maker of runs with independent normal noise of ``sigma`` nats."""

    def make(steps: int, rng: np.random.Generator) -> Healthy:
        loss = curve(steps, rng) + sigma * rng.standard_normal(steps)
        return Healthy(loss, gradient(steps, rng))

    return make


def correlated(correlation: float) -> Make:
    """Maker of runs with AR(1) noise of 0.03 nat."""

    def make(steps: int, rng: np.random.Generator) -> Healthy:
        noise = autoregressive(rng.standard_normal(steps), correlation)
        return Healthy(curve(steps, rng) + 0.03 * noise, gradient(steps, rng))

    return make


def wandering(steps: int, rng: np.random.Generator) -> Healthy:
    """White noise on a slow wander of the data's difficulty."""
    wander = autoregressive(rng.standard_normal(steps), 0.995)
    noise = rng.standard_normal(steps) + 0.5 * wander
    return Healthy(curve(steps, rng) + 0.03 * noise, gradient(steps, rng))


def heavy_loss(degrees: float) -> Make:
    """Maker of runs whose loss has Student noise of 0.03 nat."""

    def make(steps: int, rng: np.random.Generator) -> Healthy:
        loss = curve(steps, rng) + 0.03 * student(rng, degrees, steps)
        return Healthy(loss, gradient(steps, rng))

    return make


def heavy_gradient(steps: int, rng: np.random.Generator) -> Healthy:
    """Log gradient norm with Student noise of 3 degrees of freedom, correlated: bursts of x10."""
    heavy = autoregressive(student(rng, 3, steps), 0.5)
    grad = gradient(steps, rng, 0.0) * np.exp(np.clip(0.25 * heavy, -20, 20))
    return Healthy(curve(steps, rng) + 0.03 * rng.standard_normal(steps), grad)


def hard_batches(steps: int, rng: np.random.Generator) -> Healthy:
    """Loss and gradient norm share their noise: a hard batch raises both."""
    shared = student(rng, 5, steps)
    own = rng.standard_normal(steps)
    loss = curve(steps, rng) + 0.03 * (0.7 * shared + 0.7 * own)
    return Healthy(loss, gradient(steps, rng, 0.05) * np.exp(0.2 * shared))


def batch_ramp(steps: int, rng: np.random.Generator) -> Healthy:
    """The batch doubles four times: the noise shrinks in stages."""
    stage = np.minimum(np.arange(steps) // max(1, steps // 8), 4)
    sigma = 0.12 / np.sqrt(2.0**stage)
    loss = curve(steps, rng) + sigma * rng.standard_normal(steps)
    return Healthy(loss, gradient(steps, rng) / np.sqrt(2.0**stage))


def warmup_stable_decay(steps: int, rng: np.random.Generator) -> Healthy:
    """Linear warm-up, stable, and a decay over the last fifth in which the loss falls by 0.3."""
    t = np.arange(1, steps + 1, dtype=float)
    decay = np.clip((t - 0.8 * steps) / (0.2 * steps), 0, 1)
    rate = 1e-3 * np.minimum(1.0, t / (0.02 * steps)) * (1 - 0.99 * decay)
    loss = curve(steps, rng) - 0.3 * (1 - (1 - decay) ** 2)
    return Healthy(loss + 0.03 * rng.standard_normal(steps), gradient(steps, rng), rate)


def rate_rewarm(steps: int, rng: np.random.Generator) -> Healthy:
    """The rate, decayed to a tenth, is warmed up again: the loss rises by 0.15 and falls again."""
    t = np.arange(1, steps + 1, dtype=float)
    begin, length = 0.5 * steps, 0.1 * steps
    up = np.clip((t - begin) / length, 0, 1)
    rate = 1e-4 + 9e-4 * up
    bump = 0.15 * up * np.exp(-np.maximum(0, t - begin - length) / (0.15 * steps))
    loss = curve(steps, rng) + bump + 0.02 * rng.standard_normal(steps)
    return Healthy(loss, gradient(steps, rng), rate)


def quantised(steps: int, rng: np.random.Generator) -> Healthy:
    """Printed with 2 or 3 digits after the point, the noise at or below that."""
    digits = int(rng.integers(2, 4))
    sigma = rng.choice([0.002, 0.01, 0.03])
    loss = np.round(curve(steps, rng) + sigma * rng.standard_normal(steps), digits)
    return Healthy(loss, np.round(gradient(steps, rng), 3))


def sparse(steps: int, rng: np.random.Generator) -> Healthy:
    """Logged every tenth step, now and then a gap of hundreds."""
    loss = curve(10 * steps, rng)[9::10] + 0.02 * rng.standard_normal(steps)
    loss[rng.random(steps) < 0.01] = np.nan
    return Healthy(loss, gradient(10 * steps, rng)[9::10], every=10)


def missing(steps: int, rng: np.random.Generator) -> Healthy:
    """A fifth of the losses and half of the gradient norms were not logged."""
    loss = curve(steps, rng) + 0.03 * rng.standard_normal(steps)
    grad = gradient(steps, rng)
    loss[rng.random(steps) < 0.2] = np.nan
    grad[rng.random(steps) < 0.5] = np.nan
    return Healthy(loss, grad)


KINDS: dict[str, tuple[Make, int, int]] = {
    "white noise 0.01 nat": (white(0.01), 20_000, 8),
    "white noise 0.03 nat": (white(0.03), 20_000, 10),
    "white noise 0.1 nat": (white(0.1), 20_000, 5),
    "small noisy batches, 0.3 nat": (white(0.3), 20_000, 8),
    "autocorrelated 0.5": (correlated(0.5), 20_000, 8),
    "autocorrelated 0.9": (correlated(0.9), 20_000, 8),
    "slow wander": (wandering, 20_000, 8),
    "heavy-tailed loss, t5": (heavy_loss(5), 20_000, 8),
    "heavy-tailed loss, t4": (heavy_loss(4), 20_000, 8),
    "heavy-tailed gradient norm, t3": (heavy_gradient, 20_000, 8),
    "hard batches raise both": (hard_batches, 20_000, 8),
    "batch ramp": (batch_ramp, 20_000, 8),
    "warm-up, stable, decay": (warmup_stable_decay, 20_000, 8),
    "rate warmed up again": (rate_rewarm, 20_000, 8),
    "quantised to 2-3 digits": (quantised, 20_000, 8),
    "logged every 10th step": (sparse, 10_000, 12),
    "missing values": (missing, 20_000, 6),
    "first 500 steps of a run": (white(0.03), 500, 300),
    "first 500 steps, noise 0.1": (white(0.1), 500, 200),
    "first 2000 steps, autocorrelated": (correlated(0.8), 2_000, 50),
}
"""Healthy kinds by name: what makes one, its usual length in records, how many runs (3 million
records in all)."""


def records(run: Healthy) -> list[StepRecord]:
    """The run as a detector is fed with it; a missing value is absent from its record."""
    columns = {"loss": run.loss.tolist(), "grad_norm": run.grad.tolist()}
    if run.rate is not None:
        columns["learning_rate"] = run.rate.tolist()
    return [
        StepRecord(
            step=run.every * (index + 1),
            values={
                name: column[index]
                for name, column in columns.items()
                if not math.isnan(column[index])
            },
        )
        for index in range(len(run.loss))
    ]

"""How often does the loss detector cry wolf? Healthy synthetic runs of many kinds, counted.

    python benchmarks/detector_false_alarms.py            # about 3 million steps
    python benchmarks/detector_false_alarms.py --quick    # a tenth of it

Every kind is a full training curve from ln V down, with loss and gradient norm; whatever the
detector tells on it, under any code, is a false incident. The table goes to stdout and, with
``--out FILE``, to a file. Rates carry exact 95 % Poisson intervals; the last column is the speed of
the detector alone, generation excluded.
"""

import argparse
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from surefoot.detect import LossDetector
from surefoot.records import StepRecord

VOCABULARY = 50304
Array = np.ndarray


def curve(steps: int, rng: np.random.Generator) -> Array:
    """From ln V: a steep first fall to the unigram loss, then a power law down to 2-3 nats."""
    t = np.arange(1, steps + 1, dtype=float)
    floor = rng.uniform(1.8, 2.6)
    power = rng.uniform(0.25, 0.4)
    warm = rng.uniform(20, 300)
    late = floor + (7.3 - floor) * (1 + t / warm) ** -power
    return late + (math.log(VOCABULARY) - 7.3) * np.exp(-t / (warm / 3))


def autoregressive(noise: Array, correlation: float) -> Array:
    """AR(1) of unit variance driven by ``noise`` of unit variance."""
    out = np.empty_like(noise)
    gain, last = math.sqrt(1 - correlation**2), noise[0]
    for index, value in enumerate(noise):
        last = correlation * last + gain * value
        out[index] = last
    return out


def student(rng: np.random.Generator, degrees: float, steps: int) -> Array:
    """Student's t, scaled to the interquartile range of a normal."""
    scale = {3: 0.7649, 4: 0.7407, 5: 0.7267}[int(degrees)] / 0.6745
    return rng.standard_t(degrees, steps) / scale


@dataclass
class Healthy:
    """A healthy run: columns of equal length, NaN where a value is missing."""

    loss: Array
    grad: Array
    rate: Array | None = None
    every: int = 1


def gradient(steps: int, rng: np.random.Generator, spread: float = 0.15) -> Array:
    """Gradient norm: falls from 5 to about 0.3, log-normal noise, slightly correlated."""
    t = np.arange(1, steps + 1, dtype=float)
    course = 0.3 + 4.7 * np.exp(-t / 150)
    return course * np.exp(spread * autoregressive(rng.standard_normal(steps), 0.3))


def white(sigma: float) -> Callable[[int, np.random.Generator], Healthy]:
    def make(steps: int, rng: np.random.Generator) -> Healthy:
        loss = curve(steps, rng) + sigma * rng.standard_normal(steps)
        return Healthy(loss, gradient(steps, rng))

    return make


def correlated(correlation: float) -> Callable[[int, np.random.Generator], Healthy]:
    def make(steps: int, rng: np.random.Generator) -> Healthy:
        noise = autoregressive(rng.standard_normal(steps), correlation)
        return Healthy(curve(steps, rng) + 0.03 * noise, gradient(steps, rng))

    return make


def wandering(steps: int, rng: np.random.Generator) -> Healthy:
    """White noise on a slow wander of the data's difficulty."""
    wander = autoregressive(rng.standard_normal(steps), 0.995)
    noise = rng.standard_normal(steps) + 0.5 * wander
    return Healthy(curve(steps, rng) + 0.03 * noise, gradient(steps, rng))


def heavy_loss(degrees: float) -> Callable[[int, np.random.Generator], Healthy]:
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


KINDS: dict[str, tuple[Callable[[int, np.random.Generator], Healthy], int, int]] = {
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


def records(run: Healthy) -> list[StepRecord]:
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


def poisson_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval for the mean of a Poisson count, by bisection."""

    def below(mean: float, upto: int) -> float:
        term = total = math.exp(-mean)
        for k in range(1, upto + 1):
            term *= mean / k
            total += term
        return total

    def solve(target: float, upto: int) -> float:
        low, high = 0.0, 10.0 + 4.0 * count
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle, upto) > target else (low, middle)
        return low

    return (0.0 if count == 0 else solve(0.975, count - 1)), solve(0.025, count)


def measure(seed: int, quick: bool) -> tuple[list[str], float]:
    """The table's lines, and the overall rate per 10 000 steps."""
    lines = [
        "| healthy curves | steps | false incidents | per 10 000 steps | 95 % interval | µs/step |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    all_steps = all_incidents = 0
    all_time = 0.0
    for number, (kind, (make, steps, runs)) in enumerate(KINDS.items()):
        count, total, spent = 0, 0, 0.0
        for index in range(max(1, runs // 10) if quick else runs):
            run = records(make(steps, np.random.default_rng([seed, number, index])))
            detector = LossDetector(vocab_size=VOCABULARY)
            started = time.process_time()
            told = [finding for record in run for finding in detector.update(record).findings]
            spent += time.process_time() - started
            told += detector.finish()
            count += len({finding.evidence.get("incident", finding.code) for finding in told})
            total += len(run)
        lines.append(row(kind, total, count, spent))
        all_steps, all_incidents, all_time = (
            all_steps + total,
            all_incidents + count,
            all_time + spent,
        )
    lines.append(row("**all**", all_steps, all_incidents, all_time))
    return lines, 1e4 * all_incidents / all_steps


def row(kind: str, steps: int, count: int, spent: float) -> str:
    low, high = (1e4 * bound / steps for bound in poisson_interval(count))
    rate = 1e4 * count / steps
    micro = 1e6 * spent / steps
    return f"| {kind} | {steps} | {count} | {rate:.3f} | {low:.3f} to {high:.3f} | {micro:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    lines, rate = measure(arguments.seed, arguments.quick)
    text = "\n".join(
        [
            "# False alarms of the loss detector",
            "",
            f"{date.today()}, Python {platform.python_version()}, {platform.machine()}, "
            f"seed {arguments.seed}{', quick' if arguments.quick else ''}: "
            f"**{rate:.2f} false incidents per 10 000 healthy steps**.",
            "",
            *lines,
            "",
            "Command: `python benchmarks/detector_false_alarms.py "
            f"--seed {arguments.seed}{' --quick' if arguments.quick else ''}`. "
            "An incident counts once, whatever codes it was told under; "
            "a finding of family LOG counts too.",
            "",
        ]
    )
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

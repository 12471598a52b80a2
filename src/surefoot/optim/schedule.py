"""Learning rate as a pure function of the step."""

import math
from collections.abc import Callable

from surefoot.recipe import Schedule
from surefoot.registry import Registry

SHAPES: Registry[Callable[[Schedule, int], float]] = Registry("schedule")
"""Shapes after the warm-up: (schedule, step) -> share of the peak rate."""


def learning_rate(schedule: Schedule, peak: float, step: int) -> float:
    """The rate of an optimizer step.

    Warm-up is linear from 0: step 1 of W has ``peak / W``, step W has ``peak``. The last step
    and any after it have exactly ``peak * final_factor`` (``constant``, a decay of 0 steps and a
    warm-up as long as the run stay at the peak).

    Args:
        schedule: shape, steps, warm-up.
        peak: highest rate.
        step: counted from 1.

    Raises:
        ValueError: if ``step`` is below 1.
    """
    if step < 1:
        raise ValueError(f"step = {step}: steps count from 1")
    step = min(step, schedule.steps)
    if step <= schedule.warmup_steps:
        return peak * (step / schedule.warmup_steps)
    return peak * SHAPES.lookup(schedule.kind)(schedule, step)


@SHAPES.register("constant")
def _constant(schedule: Schedule, step: int) -> float:
    return 1.0


@SHAPES.register("linear")
def _linear(schedule: Schedule, step: int) -> float:
    return _fall(schedule, _done(schedule.warmup_steps, schedule, step))


@SHAPES.register("cosine")
def _cosine(schedule: Schedule, step: int) -> float:
    """Loshchilov and Hutter 2016, 1608.03983, one cycle."""
    done = _done(schedule.warmup_steps, schedule, step)
    return _fall(schedule, (1 - math.cos(math.pi * done)) / 2)


@SHAPES.register("wsd")
def _wsd(schedule: Schedule, step: int) -> float:
    """Warm-up, stable, decay (Hu et al. 2024, 2404.06395), with a linear decay."""
    decay = schedule.decay_steps
    if decay is None:
        decay = min(max(1, schedule.steps // 10), schedule.steps - schedule.warmup_steps)
    start = schedule.steps - decay
    return 1.0 if step <= start else _fall(schedule, _done(start, schedule, step))


def _done(start: int, schedule: Schedule, step: int) -> float:
    """Share of the way from step ``start`` to the last one; callers have step > start."""
    return (step - start) / (schedule.steps - start)


def _fall(schedule: Schedule, done: float) -> float:
    """From 1 to final_factor; exact at both ends."""
    return (1 - done) + done * schedule.final_factor

"""How far must one go back? The newest checkpoint of a faulty run from which the cure holds.

The cure is the run without its fault: clean settings, the bad data left out, what was lost in its
place. What stays is what the fault has done to weights and moments until then. A checkpoint is good
if, 60 steps later, the loss is the clean twin's within the spread of clean runs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from label import SUSTAINED, Spread, Vector
from text import Text
from tiny import Setting, Tiny, run

STEPS = 60
"""Length of a rerun."""


def holds(
    state: Mapping[str, Any], setting: Setting, seed: int, text: Text, twin: Vector, spread: Spread
) -> bool:
    """Whether a checkpoint is good.

    Args:
        state: saved by the faulty run.
        setting: of the clean run.
        seed: of both.
        text: where samples come from.
        twin: losses of the clean run, indexed by step - 1.
        spread: of clean runs.
    """
    tiny = Tiny(setting, seed, text)
    settings = [
        {key: value for key, value in group.items() if key != "params"}
        for group in tiny.optimizer.param_groups
    ]
    tiny.load(dict(state))
    for group, clean in zip(tiny.optimizer.param_groups, settings, strict=True):
        group.update(clean)
    # The data position is the clean run's: a loader that began again is put back as well.
    tiny.consumed = tiny.step * setting.batch
    if tiny.scaler is not None:
        tiny.scaler.scale.clamp_(max=2.0**16)
    end = tiny.step + STEPS
    losses = np.array([record.values["loss"] for record in run(tiny, end)])
    tail = losses[-SUSTAINED:] - twin[end - SUSTAINED : end]
    return bool(np.isfinite(losses).all() and tail.mean() <= spread.sustained["loss"][end - 1])


def latest_good(
    states: Mapping[int, Mapping[str, Any]],
    good: int,
    setting: Setting,
    seed: int,
    text: Text,
    twin: Vector,
    spread: Spread,
) -> int:
    """The newest good checkpoint, by bisection: what a fault has done only grows while it acts.

    Args:
        states: checkpoints of the faulty run after the injection, by step.
        good: the newest one before the injection, good by construction.
        setting: of the clean run.
        seed: of both.
        text: where samples come from.
        twin: losses of the clean run, indexed by step - 1.
        spread: of clean runs.
    """
    candidates = [good, *sorted(s for s in states if good < s <= len(twin) - STEPS)]
    low, high = 0, len(candidates)  # candidates[low] is good, candidates[high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if holds(states[candidates[middle]], setting, seed, text, twin, spread):
            low = middle
        else:
            high = middle
    return candidates[low]

"""What a step costs: the detector alone, on records like a trainer's, with and without layers."""

import time
from collections.abc import Iterator

import numpy as np

from surefoot.detect import SpikeDetector
from surefoot.records import StepRecord

STEPS = 1500
LAYERS = 100
SCALARS = ("loss", "log_z", "log_z_abs_max", "z_loss", "grad_norm", "clip_factor", "param_norm",
           "update_rms", "update_ratio", "adam_rms", "eps_share", "attention_logit_max",
           "learning_rate", "loss_scale", "batch_size", "tokens")  # fmt: skip
PLACED = (
    "grad_norm",
    "param_norm",
    "update_rms",
    "update_ratio",
    "adam_rms",
    "attention_logit_max",
)
"""Twice over, for attention and feed-forward: 12 values a layer."""


def records(layers: int, steps: int = STEPS) -> Iterator[StepRecord]:
    """Healthy records: every scalar, and 12 values a layer in arrays."""
    rng = np.random.default_rng(0)
    for step in range(1, steps + 1):
        noise = rng.standard_normal(len(SCALARS)).tolist()
        values: dict[str, float] = {
            name: 1.0 + 0.05 * value for name, value in zip(SCALARS, noise, strict=True)
        }
        values["loss"] += 2.0 + 8.0 * np.exp(-step / 100)
        values.update(learning_rate=1e-3, loss_scale=65536.0, batch_size=64, tokens=65536)
        places = {
            name: (1 + 0.05 * rng.standard_normal(2 * layers)).astype(np.float32)
            for name in PLACED
            if layers
        }
        yield StepRecord(step=step, values=values, places=places)


def microseconds(layers: int, steps: int = STEPS) -> float:
    """Median over 5 parts of the run of the processor time a step, reading not counted."""
    names = tuple(
        f"layers.{layer}.{part}"
        for layer in range(layers)
        for part in ("attention", "feed_forward")
    )
    detector = SpikeDetector(vocab_size=50304, places=dict.fromkeys(PLACED, names))
    rows = list(records(layers, steps))
    parts = []
    for begin in range(0, steps, steps // 5):
        part = rows[begin : begin + steps // 5]
        started = time.process_time()
        for record in part:
            detector.update(record)
        parts.append((time.process_time() - started) / len(part))
    return 1e6 * float(np.median(parts))


def table() -> list[list[str]]:
    """Rows of the report: what is watched, the target and what was measured."""
    return [
        [f"{len(SCALARS)} scalar signals", "50", f"{microseconds(0):.1f}"],
        [f"and {LAYERS} layers x 12 values", "1000", f"{microseconds(LAYERS, 500):.0f}"],
    ]

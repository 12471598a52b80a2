"""One run of an experiment: a cell of its table, from a recipe, through the trainer's own step."""

import base64
import hashlib
import json
import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from samples import VOCAB_SIZE, Text
from torch import Tensor

from surefoot.detect import SpikeDetector
from surefoot.optim import learning_rate
from surefoot.recipe import Recipe
from surefoot.records import StepRecord
from surefoot.train import Ranks, TrainStep, build_step, start_weights

INDICATORS = (
    "adam_rms", "eps_share", "grad_cosine", "adam_update_rms", "update_bimodality",
    "update_large_share", "second_moment_lag",
)  # fmt: skip
BASE: dict[str, Any] = {
    "architecture.vocab_size": VOCAB_SIZE,
    "architecture.norm": "layernorm",
    "architecture.activation": "gelu",
    "architecture.qk_norm": False,
    "optimizer.weight_decay": 0.1,
    "loss.z_loss_weight": 0.0,
    "schedule.kind": "cosine",
    "training.device": "cpu",
    "training.threads": 1,
}
"""What all experiments share: the GPT-2 kind of decoder that the papers use, with RoPE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A run to make.

    Attributes:
        experiment: its table.
        variant: its row.
        rate: peak learning rate.
        seed: of weights and order.
        steps: optimizer steps.
        warmup: of them, the linear warm-up.
        batch: sequences.
        length: tokens of a sequence.
        settings: recipe fields by dotted name, over :data:`BASE`.
        repeat: draw from this many samples over and over: text known by heart.
        bad_every: every so many steps one batch is a single token over and over.
        sample_every: steps between the signals that cost more.
    """

    experiment: str
    variant: str
    rate: float
    seed: int
    steps: int
    warmup: int
    batch: int = 16
    length: int = 64
    settings: Mapping[str, Any] = field(default_factory=dict)
    repeat: int | None = None
    bad_every: int | None = None
    sample_every: int = 20

    @property
    def key(self) -> str:
        """What tells it from all others: a result holds for exactly these settings."""
        text = json.dumps(asdict(self) | {"base": BASE}, sort_keys=True)
        return f"{self.experiment}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def recipe(self) -> Recipe:
        """The run as a recipe."""
        table: dict[str, Any] = {"data": {"sources": [{"kind": "stdlib"}]}}
        fields = BASE | {
            "architecture.sequence_length": self.length,
            "optimizer.learning_rate": self.rate,
            "schedule.steps": self.steps,
            "schedule.warmup_steps": self.warmup,
            "batch.global_size": self.batch,
            "signals.sample_every": self.sample_every,
            "seed": self.seed,
        }
        for name, value in (fields | dict(self.settings)).items():
            section, _, key = name.partition(".")
            if key:
                table.setdefault(section, {})[key] = value
            else:
                table[section] = value
        return Recipe.parse(table, where=self.key).resolved()


@dataclass(frozen=True, slots=True)
class Start:
    """The model before its first update.

    Attributes:
        loss: nats per token.
        profile: norm of the loss's gradient with respect to the residual stream that enters each
            block, and the one that leaves the last.
        grad_norm: of all parameters.
    """

    loss: float
    profile: tuple[float, ...]
    grad_norm: float


def measure_start(step: TrainStep, batch: Tensor) -> Start:
    """One forward and backward pass, nothing changed."""
    streams: list[Tensor] = []

    def keep(_: Any, args: tuple[Any, ...], output: Tensor) -> None:
        if not streams:
            args[0].retain_grad()
            streams.append(args[0])
        output.retain_grad()
        streams.append(output)

    hooks = [layer.register_forward_hook(keep) for layer in step.model.layers]
    try:
        logits = step.model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    norms = [p.grad.norm() for p in step.model.parameters() if p.grad is not None]
    profile = tuple(float(s.grad.norm()) for s in streams if s.grad is not None)
    step.optimizer.zero_grad(set_to_none=True)
    return Start(float(loss.detach()), profile, float(torch.stack(norms).norm().detach()))


def run(cell: Cell, text: Text, tick: Callable[[int], None] = lambda step: None) -> dict[str, Any]:
    """Make the run; what it came to, in plain numbers (see :func:`summarise`)."""
    began = time.perf_counter()
    recipe = cell.recipe()
    step = build_step(recipe, Ranks(rank=0, world=1, device=torch.device("cpu")))
    start_weights(step.model, recipe)
    start = measure_start(step, text.batch(cell.seed, 0, cell.batch, cell.repeat))
    detector = SpikeDetector(vocab_size=VOCAB_SIZE, places=step.meter.places)
    losses: list[float] = []
    norms: list[float] = []
    sampled: dict[str, list[float]] = {"attention_logit_max": []}
    found: list[Any] = []

    def take(record: StepRecord | None) -> None:
        if record is None:
            return
        losses.append(float(record.values["loss"]))
        norms.append(float(record.values["grad_norm"]))
        for name in INDICATORS:
            if name in record.values:
                sampled.setdefault(name, []).append(float(record.values[name]))
        if "attention_logit_max" in record.places:
            sampled["attention_logit_max"].append(
                float(np.max(record.places["attention_logit_max"]))
            )
        # Of the detector's many signals only the loss and the gradient norm are of use here.
        plain = {k: record.values[k] for k in ("loss", "grad_norm", "learning_rate")}
        found.extend(
            detector.update(StepRecord(step=record.step, attempt=0, values=plain)).findings
        )

    skipped = 0
    for number in range(1, cell.steps + 1):
        batch = text.batch(cell.seed, (number - 1) * cell.batch, cell.batch, cell.repeat)
        if cell.bad_every and number % cell.bad_every == 0:
            batch = torch.full_like(batch, number % VOCAB_SIZE)
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, number)
        outcome = step(batch, number, rate)
        skipped += int(outcome.values["update_skipped"])
        take(
            step.meter.record(
                number, 0, outcome.values, sums=outcome.sums, attention=outcome.attention
            )
        )
        tick(number)
        if len(losses) > 30 and not all(map(math.isfinite, losses[-20:])):
            break
    take(step.meter.flush())
    found.extend(detector.finish())
    return summarise(cell, text, step, start, losses, norms, sampled, found, skipped) | {
        "seconds": round(time.perf_counter() - began, 1)
    }


@torch.no_grad()
def held_out_loss(step: TrainStep, text: Text) -> float:
    """Mean cross-entropy on held-out documents, nats per token."""
    total = [
        F.cross_entropy(step.model(b[:, :-1]).flatten(0, 1).float(), b[:, 1:].flatten())
        for b in text.held_out.split(max(1, 4096 // text.held_out.shape[1]))
    ]
    return float(torch.stack(total).mean())


def summarise(
    cell: Cell, text: Text, step: TrainStep, start: Start, losses: list[float],
    norms: list[float], sampled: dict[str, list[float]], found: list[Any], skipped: int,
) -> dict[str, Any]:  # fmt: skip
    """Plain numbers of a finished run.

    ``diverged``: not finite, or worse than at the start. ``spikes``: incidents that surefoot's
    detector of loss and gradient norm found, with their onsets; ``largest_spike``: largest excess
    of a step's loss, nats, over the median of the 31 before it, after the warm-up.
    """
    x = np.array(losses)
    last = float(np.mean(x[-30:]))
    finite = bool(np.isfinite(x).all()) and len(x) == cell.steps
    onsets = {
        str(f.evidence.get("incident")): f.evidence.get("onset_step")
        for f in found
        if f.code in ("SPK000", "SPK001", "SPK002", "SPK003", "SPK004")
    }
    window = 31
    excess = [x[i] - np.median(x[i - window : i]) for i in range(max(window, cell.warmup), len(x))]
    return {
        "key": cell.key, "experiment": cell.experiment, "variant": cell.variant,
        "rate": cell.rate, "seed": cell.seed, "length": cell.length, "steps": len(x),
        "first_loss": start.loss, "first_grad_norm": start.grad_norm,
        "profile": [round(v, 6) for v in start.profile],
        "last_loss": last, "validation_loss": held_out_loss(step, text),
        "diverged": not finite or last > start.loss,
        "spikes": len(onsets), "onsets": sorted(int(o) for o in onsets.values() if o),
        "codes": sorted({f.code for f in found}),
        "largest_spike": float(np.nanmax(excess)) if excess else 0.0,
        "grad_norm_max": float(np.nanmax(norms)) if norms else math.nan,
        "grad_norm_max_after": float(np.nanmax(norms[cell.warmup :] or [math.nan])),
        "attention_logit_last": sampled["attention_logit_max"][-1],
        "attention_logit_max": float(np.nanmax(sampled["attention_logit_max"])),
        "skipped": skipped,
        "losses": pack(losses),
        "indicators": {k: pack(v) for k, v in sampled.items() if k != "attention_logit_max"}
        if cell.sample_every == 1 else {},
    }  # fmt: skip


def pack(values: list[float]) -> str:
    """A series as text: float16, compressed. Its precision, 1/1000, is ample for a picture."""
    with np.errstate(over="ignore"):
        raw = np.array(values, np.float16).tobytes()
    return base64.b85encode(zlib.compress(raw, 9)).decode()


def unpack(text: str) -> Any:
    """What :func:`pack` packed, as float32."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), np.float16).astype(np.float32)


__all__ = ["INDICATORS", "Cell", "pack", "run", "unpack"]

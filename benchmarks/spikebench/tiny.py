"""A tiny run of surefoot's own trainer step, which can be forked and have faults planted in it.

The model, its start, the step, the optimizer and the meter are those of a real run; only the loop
around them is here, because it must stop, go back and be tampered with.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from text import VOCAB_SIZE, Text
from torch import Tensor

from surefoot.init import initialise
from surefoot.model import Decoder, LossSums
from surefoot.optim import LossScaler, build_optimizer, learning_rate
from surefoot.recipe import Architecture, Init, Optimizer, Schedule
from surefoot.records import StepRecord
from surefoot.signals import GradNorms, Meter
from surefoot.train import Ranks, TrainStep

PLACES = ("grad_norm", "update_ratio", "adam_rms", "attention_logit_max")
KEPT = (
    "loss", "log_z", "log_z_abs_max", "z_loss", "grad_norm", "clip_factor", "param_norm",
    "update_rms", "update_ratio", "adam_rms", "eps_share", "attention_logit_max", "learning_rate",
    "loss_scale", "update_skipped", "batch_size", "tokens", "consumed_samples", "validation_loss",
    "data_phase", "grad_cosine",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything that makes a clean run but its seed."""

    name: str
    layers: int = 2
    width: int = 32
    heads: int = 2
    length: int = 32
    batch: int = 8
    tied: bool = False
    qk_norm: bool = True
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    activation: Literal["swiglu", "gelu"] = "swiglu"
    embedding_std: float | Literal["small"] = 1.0
    rate: float = 6e-3
    warmup: int = 60
    schedule: Literal["cosine", "wsd", "linear", "constant"] = "cosine"
    steps: int = 700
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    z_loss: float = 1e-4
    precision: str = "fp32"
    domain: str = "code"
    repeat: int | None = None
    """Draw only from this many samples, over and over: a run that has become quiet."""
    copies: bool = False
    """Each sample says its first half twice: text on which attention matters from early on."""

    @property
    def shape(self) -> str:
        """Model and batch in a word."""
        return (
            f"L{self.layers}-d{self.width}-h{self.heads}-V{VOCAB_SIZE}-T{self.length}-B{self.batch}"
        )

    @property
    def words(self) -> str:
        """Optimizer, schedule and switches."""
        parts = [
            f"adamw lr {self.rate:g} beta2 {self.beta2:g} eps {self.eps:g} "
            f"wd {self.weight_decay:g} clip {self.clip:g}",
            f"{self.schedule} warmup {self.warmup}",
            f"z-loss {self.z_loss:g}",
            "qk-norm" if self.qk_norm else "no qk-norm",
            *(["tied"] if self.tied else []),
            *([f"embedding std {self.embedding_std}"] if self.embedding_std != 1.0 else []),
            *([self.norm, self.activation] if self.norm != "rmsnorm" else []),
            *([self.precision] if self.precision != "fp32" else []),
            *(["text said twice"] if self.copies else []),
            *([f"{self.repeat} samples over and over"] if self.repeat else []),
        ]
        return ", ".join(parts)


class Change:
    """Something done to a run from outside; a fault, or a change that was planned.

    Attributes:
        first: first step at which it acts.
        last: last one.
    """

    def __init__(self, first: int, last: int | None = None) -> None:
        self.first = first
        self.last = 10**9 if last is None else last

    def acts(self, step: int) -> bool:
        """Whether it acts at ``step``."""
        return self.first <= step <= self.last

    def before(self, run: "Tiny", step: int) -> None:
        """Tamper with the state before a step."""

    def rate(self, run: "Tiny", step: int, rate: float) -> float:
        """The learning rate instead of the planned one."""
        return rate

    def size(self, run: "Tiny", step: int, size: int, length: int) -> tuple[int, int]:
        """Batch size and sequence length instead of the planned ones."""
        return size, length

    def batch(self, run: "Tiny", step: int, batch: Tensor) -> Tensor:
        """The batch instead of the planned one."""
        return batch

    def around(self, run: "Tiny", step: int, batch: Tensor) -> AbstractContextManager[Any]:
        """What the step runs in."""
        return contextlib.nullcontext()

    def sums(self, run: "Tiny", step: int, sums: LossSums) -> LossSums:
        """The loss sums of the whole batch, where a step saw a part of it."""
        return sums

    def values(self, run: "Tiny", step: int) -> Mapping[str, float | int]:
        """Further values of the record."""
        return {}


class CosineMeter(Meter):
    """The meter, and how far a gradient points where Adam's first moment did before it."""

    cosine: float | None = None

    @torch.no_grad()
    def norms(self, step: int, unscale: Tensor | None = None) -> GradNorms:
        """As the meter's, and the cosine."""
        found = super().norms(step, unscale)
        state = self._tiny_optimizer.state
        pairs = [
            (p.grad.flatten(), state[p]["exp_avg"].flatten())
            for p in self._parameters.tensors
            if p.grad is not None and p in state and float(state[p]["step"]) > 0
        ]
        self.cosine = None
        if pairs:
            gradient, moment = (torch.cat(side) for side in zip(*pairs, strict=True))
            # Both are brought to unit length: a product of fp32 sums of squares may overflow.
            unit, other = (v / torch.linalg.vector_norm(v) for v in (gradient, moment))
            self.cosine = float(torch.dot(unit, other))
        return found

    _tiny_optimizer: torch.optim.Optimizer


class Tiny:
    """A run that can be stepped, saved, forked and tampered with.

    Args:
        setting: shape, optimizer, schedule.
        seed: of weights and data order.
        text: where samples come from.
        changes: faults and planned changes.
    """

    def __init__(
        self, setting: Setting, seed: int, text: Text, changes: Sequence[Change] = ()
    ) -> None:
        s = setting
        self.setting, self.seed, self.text = s, seed, text
        self.changes: list[Change] = list(changes)
        self.step = self.consumed = self.attempt = 0
        self.domain = s.domain
        architecture = Architecture(
            layers=s.layers, width=s.width, heads=s.heads, vocab_size=VOCAB_SIZE,
            sequence_length=max(64, s.length), tied_embeddings=s.tied, qk_norm=s.qk_norm,
            norm=s.norm, activation=s.activation,
        )  # fmt: skip
        self.model = Decoder(architecture)
        initialise(
            self.model, self.model.roles(), Init(embedding_std=s.embedding_std),
            width=s.width, layers=s.layers, seed=seed,
        )  # fmt: skip
        self.optimizer = build_optimizer(
            self.model,
            Optimizer(
                learning_rate=s.rate, beta2=s.beta2, eps=s.eps, weight_decay=s.weight_decay,
                clip_norm=s.clip,
            ),
        )  # fmt: skip
        self.schedule = Schedule(kind=s.schedule, steps=s.steps, warmup_steps=s.warmup)
        self.scaler = LossScaler(2.0**16) if s.precision == "fp16" else None
        self.meter = CosineMeter(self.model, self.optimizer, sample_every=1)
        self.meter._tiny_optimizer = self.optimizer
        self.train_step = TrainStep(
            model=self.model, wrapped=self.model, optimizer=self.optimizer, meter=self.meter,
            ranks=Ranks(rank=0, world=1, device=torch.device("cpu")), micro_size=10**6,
            clip_norm=s.clip, z_loss_weight=s.z_loss, precision=s.precision, scaler=self.scaler,
        )  # fmt: skip
        self._grouping = Grouping(self.model)
        self.places = self._grouping.places

    def planned_rate(self, step: int) -> float:
        """What the schedule says."""
        return learning_rate(self.schedule, self.setting.rate, step)

    def planned_batch(self, first: int, size: int, length: int) -> Tensor:
        """What the data order says."""
        if self.setting.copies:
            half = self.text.batch(self.domain, self.seed, first, size, length // 2)
            return torch.cat([half[:, :-1], half], dim=1)[:, : length + 1]
        if self.setting.repeat is None:
            return self.text.batch(self.domain, self.seed, first, size, length)
        rows = [(first + i) % self.setting.repeat for i in range(size)]
        pool = self.text.batch(self.domain, self.seed, 0, self.setting.repeat, length)
        return pool[rows]

    def advance(self) -> StepRecord:
        """Take the next step; its record."""
        step = self.step + 1
        acting = [change for change in self.changes if change.acts(step)]
        for change in acting:
            change.before(self, step)
        rate = self.planned_rate(step)
        size, length = self.setting.batch, self.setting.length
        for change in acting:
            rate = change.rate(self, step, rate)
            size, length = change.size(self, step, size, length)
        batch = self.planned_batch(self.consumed, size, length)
        for change in acting:
            batch = change.batch(self, step, batch)
        self.consumed += size
        with ExitStack() as stack:
            for change in acting:
                stack.enter_context(change.around(self, step, batch))
            outcome = self.train_step(batch, step, rate)
        values: dict[str, Any] = dict(outcome.values)
        values |= {
            "batch_size": size,
            "tokens": size * length,
            "consumed_samples": self.consumed,
        }
        if self.meter.cosine is not None:
            values["grad_cosine"] = self.meter.cosine
        sums = outcome.sums
        for change in acting:
            values |= change.values(self, step)
            sums = change.sums(self, step, sums)
        self.meter.record(step, self.attempt, values, sums=sums, attention=outcome.attention)
        record = self.meter.flush()
        assert record is not None
        self.step = step
        return self._grouping.record(record)

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Mean cross-entropy of held-out samples of the present domain."""
        batch = self.text.held_out[self.domain][:, : self.setting.length + 1]
        logits = self.model(batch[:, :-1])
        return float(F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten()))

    def save(self) -> dict[str, Any]:
        """All state, in memory."""
        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": None if self.scaler is None else self.scaler.state_dict(),
                "own": (self.step, self.consumed, self.attempt, self.domain),
            }
        )

    def load(self, state: dict[str, Any]) -> None:
        """Take up a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        self.step, self.consumed, self.attempt, self.domain = state["own"]

    def set_step(self, **settings: Any) -> None:
        """Other settings of the trainer's step from now on."""
        self.train_step = dataclasses.replace(self.train_step, **settings)


class Grouping:
    """Values of parameters put together by embedding, half a layer, and head."""

    def __init__(self, model: Decoder) -> None:
        named = [(name, p.numel()) for name, p in model.named_parameters()]
        groups = [_group(name) for name, _ in named]
        self.names = tuple(dict.fromkeys(groups))
        self.of = np.array([self.names.index(group) for group in groups])
        self.sizes = np.array([size for _, size in named], float)
        layers = tuple(f"layers.{i}" for i in range(len(model.layers)))
        self.places: dict[str, tuple[str, ...]] = {
            name: layers if name == "attention_logit_max" else self.names for name in PLACES
        }

    def record(self, record: StepRecord) -> StepRecord:
        """The record with places by group, and only what is kept."""
        found: dict[str, Any] = {}
        with np.errstate(all="ignore"):
            raw = {k: np.asarray(v, np.float64) for k, v in record.places.items()}
            if "grad_norm" in raw:
                found["grad_norm"] = np.sqrt(self._sum(raw["grad_norm"] ** 2))
            if "update_ratio" in raw:
                change = self._sum((raw["update_ratio"] * raw["param_norm"]) ** 2)
                found["update_ratio"] = np.sqrt(change / self._sum(raw["param_norm"] ** 2))
            if "adam_rms" in raw:
                squares = self._sum(raw["adam_rms"] ** 2 * self.sizes)
                found["adam_rms"] = np.sqrt(squares / self._sum(self.sizes))
            if "attention_logit_max" in raw:
                found["attention_logit_max"] = raw["attention_logit_max"]
            found = {k: v.astype(np.float32) for k, v in found.items()}
        values = {k: record.values[k] for k in KEPT if k in record.values}
        return StepRecord(step=record.step, attempt=record.attempt, values=values, places=found)

    def _sum(self, values: Any) -> Any:
        return np.bincount(self.of, weights=values, minlength=len(self.names))


def _group(name: str) -> str:
    """``layers.0.attention_norm.weight`` -> ``layers.0.attention``."""
    parts = name.split(".")
    if parts[0] == "layers":
        return f"layers.{parts[1]}.{parts[2].removesuffix('_norm')}"
    return parts[0] if parts[0] == "embedding" else "head"


def run(tiny: Tiny, steps: int, each: Callable[[Tiny], None] | None = None) -> list[StepRecord]:
    """Advance to ``steps``; ``each`` is called after every step."""
    records = []
    while tiny.step < steps:
        records.append(tiny.advance())
        if each is not None:
            each(tiny)
    return records

"""TrainSpec: what a run was asked to do, in one normal form whatever trainer it came from.

A field nobody stated is ``None``; a rule that needs it answers "not checked", never "passed". Every
stated field knows its source, by its dotted path in :attr:`TrainSpec.sources`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

FORMAT = 1
"""Format of ``spec.toml``; a reader refuses a newer one by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a stated field came from."""

    kind: str
    """``recipe``, ``flag``, ``default``, ``config`` (another trainer's file) or ``log``."""
    file: str | None = None
    line: int | None = None
    flag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureSpec:
    """Shape of the decoder. Widths in channels, lengths in tokens."""

    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    ff_width: int | None = None
    vocab_size: int | None = None
    sequence_length: int | None = None
    norm: str | None = None
    norm_eps: float | None = None
    norm_placement: str | None = None
    activation: str | None = None
    position: str | None = None
    rope_theta: float | None = None
    tied_embeddings: bool | None = None
    qk_norm: bool | None = None
    embedding_scale: float | None = None
    embedding_norm: bool | None = None
    bias: bool | None = None
    dropout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitSpec:
    """Initialisation: method name and standard deviations of the weights as drawn."""

    method: str | None = None
    std: float | None = None
    embedding_std: float | None = None
    depth_scaled_outputs: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpec:
    """Optimizer and what acts on its gradient."""

    name: str | None = None
    learning_rate: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    eps: float | None = None
    weight_decay: float | None = None
    decay_embeddings: bool | None = None
    clip_norm: float | None = None
    """Clip by global norm; 0 = no clipping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """Learning-rate schedule, in optimizer steps."""

    kind: str | None = None
    steps: int | None = None
    warmup_steps: int | None = None
    decay_steps: int | None = None
    final_factor: float | None = None
    """Last learning rate over the peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionSpec:
    """Number formats."""

    compute: str | None = None
    """``fp32``, ``bf16``, ``fp16``, ``fp8``."""
    master: str | None = None
    gradient_reduce: str | None = None
    softmax_fp32: bool | None = None
    initial_loss_scale: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Batch in sequences."""

    global_size: int | None = None
    micro_size: int | None = None
    ramp_from: int | None = None
    ramp_increment: int | None = None
    ramp_samples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelismSpec:
    """Ranks by dimension."""

    world_size: int | None = None
    data: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    context: int | None = None
    expert: int | None = None
    zero_stage: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """What is fed, and in which order."""

    sources: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
    tokenizer: str | None = None
    seed: int | None = None
    validation_fraction: float | None = None
    content_sha256: str | None = None
    tokenizer_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpec:
    """Terms beside the cross-entropy."""

    z_loss_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """What a run was asked to do.

    ``options`` holds what has no place in the normal form, by section, as the trainer wrote it (for
    surefoot: evaluation, checkpoints, signals, policy). ``environment`` is what the configuration
    itself says of versions and devices; what was found at run time is the Run's.
    """

    name: str | None = None
    trainer: str | None = None
    seed: int | None = None
    architecture: ArchitectureSpec = field(default_factory=ArchitectureSpec)
    init: InitSpec = field(default_factory=InitSpec)
    loss: LossSpec = field(default_factory=LossSpec)
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    schedule: ScheduleSpec = field(default_factory=ScheduleSpec)
    precision: PrecisionSpec = field(default_factory=PrecisionSpec)
    batch: BatchSpec = field(default_factory=BatchSpec)
    parallelism: ParallelismSpec = field(default_factory=ParallelismSpec)
    data: DataSpec = field(default_factory=DataSpec)
    environment: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    format: int = FORMAT

    def stated(self) -> dict[str, Any]:
        """Every stated field of the normal form by dotted path, e.g. ``optimizer.eps``."""
        found: dict[str, Any] = {}
        for section in fields(self):
            value = getattr(self, section.name)
            if hasattr(type(value), "__dataclass_fields__"):
                for item in fields(value):
                    inner = getattr(value, item.name)
                    if inner is not None:
                        found[f"{section.name}.{item.name}"] = inner
            elif section.name in ("name", "trainer", "seed") and value is not None:
                found[section.name] = value
        return found

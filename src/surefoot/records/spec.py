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
    """``recipe``, ``flag``, ``default``, ``config`` (another trainer's file), ``log``, ``comment``
    (a remark in a file, e.g. ``# 64 nodes x 4 GPUs``) or ``derived`` (from other fields)."""
    file: str | None = None
    line: int | None = None
    flag: str | None = None
    """The key as it was written there; for ``derived``, from what and how."""
    assumed: str | None = None
    """For ``default``: the trainer and version that would fill the value in, as assumed."""


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
    """Of hidden states and residual branches, as a probability."""
    attention_dropout: float | None = None
    """Of attention probabilities."""
    max_positions: int | None = None
    """Longest sequence the positions are made for, in tokens."""
    padded_vocab_size: int | None = None
    """Rows of the embedding where the trainer pads them beyond the tokenizer's vocabulary."""
    vocab_multiple: int | None = None
    """What the padded vocabulary is a multiple of, before the tensor-parallel size."""
    rope_fraction: float | None = None
    """Share of the channels of a head that RoPE turns; 1 = all."""
    window: int | None = None
    """Sliding attention window, in tokens."""
    attention_softcap: float | None = None
    """Attention logits are capped at plus or minus this by tanh."""
    logit_softcap: float | None = None
    """Output logits are capped at plus or minus this by tanh."""
    qk_clip: float | None = None
    """Largest attention logit before query and key weights are scaled down (QK-clip)."""
    parallel_blocks: bool | None = None
    """Attention and feed-forward read the same input."""
    bias_qkv: bool | None = None
    """Bias of the query, key and value projections, where it differs from ``bias``."""
    experts: int | None = None
    """Routed experts of a mixture-of-experts layer."""
    experts_per_token: int | None = None
    """Experts that each token is sent to."""
    shared_experts: int | None = None
    """Experts that every token passes."""
    expert_ff_width: int | None = None
    """Inner width of one expert, in channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitSpec:
    """Initialisation: method name and standard deviations of the weights as drawn."""

    method: str | None = None
    std: float | None = None
    embedding_std: float | None = None
    depth_scaled_outputs: bool | None = None
    output_std: float | None = None
    """Of the projections that write into the residual stream, where it is stated by itself."""


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
    decay_end: float | None = None
    """Weight decay at the end of the run, where it changes."""
    decay_norms: bool | None = None
    """Whether gains of norms are decayed."""
    decay_biases: bool | None = None
    """Whether biases are decayed."""
    momentum: float | None = None
    """Of SGD, Muon or Lion-like optimizers."""
    fused: bool | None = None
    """Whether the update runs in one kernel."""
    clip_value: float | None = None
    """Clip of each element of the gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """Learning-rate schedule, in optimizer steps."""

    kind: str | None = None
    steps: int | None = None
    warmup_steps: int | None = None
    decay_steps: int | None = None
    """Of ``wsd``, the length of its last decay; of others, the step at whose end the last learning
    rate is reached, where that is not the end of the run."""
    final_factor: float | None = None
    """Last learning rate over the peak."""
    min_learning_rate: float | None = None
    """Last learning rate."""
    warmup_from: float | None = None
    """Learning rate at the first step of the warm-up."""
    warmup_fraction: float | None = None
    """Warm-up as a share of the decay (Megatron-LM) or of the run."""
    decay_kind: str | None = None
    """Shape of the last decay of a ``wsd`` schedule: ``linear``, ``exponential``, ``1-sqrt``..."""
    samples: int | None = None
    """Length of the run in sequences, where it is stated so."""
    warmup_samples: int | None = None
    """Warm-up in sequences."""
    decay_samples: int | None = None
    """Sequences at whose end the last learning rate is reached."""
    tokens: int | None = None
    """Length of the run in tokens."""
    warmup_tokens: int | None = None
    """Warm-up in tokens."""
    decay_tokens: int | None = None
    """Tokens at whose end the last learning rate is reached."""
    epochs: float | None = None
    """Length of the run in passes over the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionSpec:
    """Number formats."""

    compute: str | None = None
    """``fp32``, ``bf16``, ``fp16``, ``fp8``."""
    master: str | None = None
    gradient_reduce: str | None = None
    softmax_fp32: bool | None = None
    initial_loss_scale: float | None = None
    """First loss scale of fp16, where it is dynamic."""
    static_loss_scale: float | None = None
    """Loss scale of fp16 that never changes."""
    loss_scale_window: int | None = None
    """Steps without an overflow after which the dynamic loss scale is doubled."""
    loss_scale_hysteresis: int | None = None
    """Overflows before the dynamic loss scale is halved."""
    min_loss_scale: float | None = None
    """Below it the dynamic loss scale does not fall."""
    fp8_recipe: str | None = None
    """``delayed``, ``tensorwise``, ``blockwise``, ``mxfp8``..."""
    fp8_format: str | None = None
    """``e4m3`` or ``hybrid``."""
    moments: str | None = None
    """Number format of the optimizer's moments."""
    tf32: bool | None = None
    """Whether fp32 products may be computed in TF32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Batch in sequences."""

    global_size: int | None = None
    micro_size: int | None = None
    ramp_from: int | None = None
    ramp_increment: int | None = None
    ramp_samples: int | None = None
    accumulation: int | None = None
    """Micro-batches of a rank that make one step."""
    tokens: int | None = None
    """Tokens of a global batch, where it is stated so."""


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
    nodes: int | None = None
    """Machines."""
    devices_per_node: int | None = None
    """Accelerators of a machine."""
    virtual_pipeline: int | None = None
    """Model chunks of a pipeline stage (interleaving)."""
    sequence: bool | None = None
    """Activations outside tensor-parallel regions are split along the sequence."""
    fsdp: str | None = None
    """How parameters are sharded: ``full``, ``grad-op``, ``hybrid``, ``none``."""
    recompute: str | None = None
    """Activations computed again in the backward: ``none``, ``selective``, ``full``."""
    recompute_layers: int | None = None
    """Layers of a group (or stage) that ``full`` recomputes."""
    distributed_optimizer: bool | None = None
    """Optimizer state is split over the data-parallel ranks."""
    overlap_grad_reduce: bool | None = None
    """Gradient reduction runs beside the backward."""
    overlap_param_gather: bool | None = None
    """Parameter gathering runs beside the forward."""
    overlap_tensor: bool | None = None
    """Tensor-parallel communication runs beside its matrix products."""
    offload: str | None = None
    """What lies outside device memory: ``optimizer``, ``parameters``, ``both``, ``none``."""
    compile: bool | None = None
    """Whether the model is compiled."""


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
    tokenizer_kind: str | None = None
    """Kind of tokenizer, as the trainer names it."""
    split: str | None = None
    """Shares of training, validation and test, as the trainer writes them."""
    workers: int | None = None
    """Loading processes of a rank."""
    shuffle: bool | None = None
    """Whether the order is drawn."""
    reset_positions: bool | None = None
    """Positions begin anew with each document of a packed sequence."""
    reset_attention: bool | None = None
    """Documents of a packed sequence do not see one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpec:
    """Terms beside the cross-entropy."""

    z_loss_weight: float | None = None
    balance_weight: float | None = None
    """Weight of the experts' load-balancing term."""
    router_z_weight: float | None = None
    """Weight of the router's z-loss."""
    label_smoothing: float | None = None
    """Share of the target spread over the vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalSpec:
    """What happens every so many optimizer steps."""

    log: int | None = None
    """A line of the log."""
    checkpoint: int | None = None
    """A checkpoint."""
    evaluate: int | None = None
    """An evaluation."""
    evaluate_batches: int | None = None
    """Batches of one evaluation."""


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
    interval: IntervalSpec = field(default_factory=IntervalSpec)
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

"""The sections of a recipe: what people write, with a unit and a reason for each field."""

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from surefoot.recipe.kinds import LARGEST

Positive = Annotated[int, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Size = Annotated[int, Field(gt=0, le=2**24)]
"""Of a vocabulary or a sequence: far above what is in use, far below what tokenizers and 32-bit
token files abort on."""
Width = Annotated[int, Field(gt=0, le=2**20)]
Sequences = Annotated[int, Field(gt=0, le=2**20)]
"""Of a batch; with Steps, any sample of a run has a number that fits in 64 bits."""
Steps = Annotated[int, Field(gt=0, le=10**9)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """Base of all sections: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class Architecture(Section):
    """A pre-norm decoder."""

    layers: Annotated[int, Field(gt=0, le=10**4)]
    """Blocks."""
    width: Width
    """Channels of the residual stream, d."""
    heads: Positive
    """Query heads; must divide the width, with an even head size (RoPE turns pairs)."""
    kv_heads: Positive | None = None
    """Key/value heads of grouped-query attention; must divide `heads`. Default: `heads`."""
    ff_width: Size | None = None
    """Inner channels of the feed-forward block. Default: 8/3 d rounded up to 32 for SwiGLU, 4 d
    for GELU."""
    vocab_size: Size
    """Rows of the embedding; the tokenizer is trained to this size, and may not exceed it."""
    sequence_length: Size
    """Tokens of a training sequence."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Normalisation of the residual stream."""
    norm_eps: Rate = 1e-6
    """Added to the variance; raise it for fp16."""
    activation: Literal["swiglu", "gelu"] = "swiglu"
    """Feed-forward kind."""
    rope_theta: Rate = 10000.0
    """Base of the rotary frequencies; raise it for long sequences only."""
    tied_embeddings: bool = False
    """Whether the head shares the embedding's weights."""
    qk_norm: bool = True
    """RMSNorm on the queries and keys of each head, before RoPE: bounds the attention logits."""
    embedding_scale: Literal["sqrt_width"] | Rate = 1.0
    """Factor on the embedding's output (input side only); `sqrt_width` is Scaled Embed."""
    head_scale: Literal["auto"] | Rate = "auto"
    """Factor on the logits. `auto`: 1, but with tied embeddings 4 / (d init.embedding_std), at most
    1: the token just read starts with a logit of 4, and the first loss is near ln V. Tied
    embeddings learn best with `embedding_scale = "sqrt_width"` and `embedding_std = "small"`."""

    @property
    def head_size(self) -> int:
        """Channels of one head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """`kv_heads`, or its default."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def inner_width(self) -> int:
        """`ff_width`, or its default."""
        if self.ff_width is not None:
            return self.ff_width
        return 4 * self.width if self.activation == "gelu" else -(-8 * self.width // 96) * 32

    @property
    def small_std(self) -> float:
        """sqrt(2/(5 d))."""
        return math.sqrt(2 / (5 * self.width))

    @property
    def input_factor(self) -> float:
        """`embedding_scale` as a number."""
        return (
            math.sqrt(self.width) if self.embedding_scale == "sqrt_width" else self.embedding_scale
        )

    @property
    def output_factor(self) -> float:
        """`head_scale` as a number; with `auto` and tied embeddings, for embeddings of std 1."""
        return self.output_factor_for(1.0)

    def output_factor_for(self, embedding_std: float) -> float:
        """`head_scale` as a number, for embeddings of this standard deviation.

        Behind the last norm the residual stream has RMS 1 and, at first, the direction of the
        embedding just read: with a tied head that token gets the logit d times embedding_std.
        """
        if self.head_scale != "auto":
            return self.head_scale
        return min(1.0, 4 / (self.width * embedding_std)) if self.tied_embeddings else 1.0


class Init(Section):
    """Initialisation by the two conditions of Spike No More (Takase et al. 2023, 2312.16903)."""

    method: Literal["spike-no-more"] = "spike-no-more"
    """Normal weights of standard deviation `std`; norms 1, biases 0."""
    std: Literal["small"] | Rate = "small"
    """Standard deviation of all matrices; `small` is sqrt(2/(5 d)) (Nguyen and Salazar 2019)."""
    embedding_std: Literal["small"] | Rate = 1.0
    """Standard deviation of the embedding; near 1 bounds the gradients of the first blocks."""
    depth_scaled_outputs: bool = True
    """Divide the attention and feed-forward output matrices by sqrt(2 layers)."""
    pretrained: str | None = None
    """A transformers folder whose weights to start from instead (what --init-from sets)."""


class Loss(Section):
    """Terms beside the cross-entropy."""

    z_loss_weight: NonNegative = 1e-4
    """Weight of mean(log Z ^ 2); it is measured at weight 0 too."""


class Optimizer(Section):
    """AdamW (Loshchilov and Hutter 2017, 1711.05101) on torch's fused path."""

    name: Literal["adamw"] = "adamw"
    """The optimizer."""
    learning_rate: Rate
    """Peak learning rate."""
    beta1: Share = 0.9
    """Decay of the first moment."""
    beta2: Share = 0.95
    """Decay of the second moment; 0.999 reacts too slowly to a burst of gradients."""
    eps: Rate = 1e-8
    """Added to sqrt(v); must stay well below sqrt(v)."""
    weight_decay: NonNegative = 0.1
    """Decay per step and unit of learning rate, on matrices only."""
    decay_embeddings: bool = False
    """Whether embeddings decay; shrinking ones enlarge the early gradients."""
    clip_norm: NonNegative = 1.0
    """Clip by global gradient norm; 0 = no clipping."""


class Schedule(Section):
    """Learning rate over optimizer steps."""

    kind: Literal["cosine", "wsd", "linear", "constant"] = "cosine"
    """Shape after the warm-up; `wsd` is warm-up, stable, decay (Hu et al. 2024, 2404.06395)."""
    steps: Steps
    """Optimizer steps of the whole run."""
    warmup_steps: Count
    """Steps of linear warm-up from 0; not longer than `steps`."""
    decay_steps: Count | None = None
    """Steps of the final decay (wsd only). Default: a tenth of `steps`."""
    final_factor: Share = 0.1
    """Last learning rate over the peak."""


class Precision(Section):
    """Number formats; parameters and moments are fp32 always."""

    compute: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Autocast format of the matrix products; fp16 brings loss scaling."""
    initial_loss_scale: Rate = 65536.0
    """First loss scale (fp16 only)."""


class Batch(Section):
    """Batch in sequences."""

    global_size: Sequences
    """Sequences an optimizer step, over all ranks."""
    micro_size: Sequences | None = None
    """Sequences a forward pass on one rank; the rest is accumulated. Default: all at once."""
    ramp_from: Positive | None = None
    """First batch size of a ramp; it grows to `global_size` over `ramp_samples`."""
    ramp_increment: Positive | None = None
    """Sequences added at each stage of the ramp; must divide global_size - ramp_from."""
    ramp_samples: Positive | None = None
    """Sequences consumed by the time the ramp reaches `global_size`."""


class DataSource(Section):
    """One source of documents."""

    kind: Literal["stdlib", "files"]
    """`stdlib`: the running interpreter's own .py files. `files`: what `path` names."""
    path: str | None = None
    """Folder, file or glob (files only): .txt .md .py .jsonl, each also .gz or .zst, and .parquet.
    Relative paths start at the recipe's folder."""
    weight: Rate = 1.0
    """Share of the training samples, relative to the other sources' weights."""
    text_field: str = "text"
    """Column or key that holds the text in .jsonl and .parquet."""
    max_bytes: Positive | None = None
    """Stop after this many bytes of text; for trials."""


class Data(Section):
    """What is fed, and in which order."""

    sources: tuple[DataSource, ...] = Field(min_length=1, strict=False)
    """Where documents come from."""
    tokenizer: str = "bpe"
    """`bpe`: byte-level BPE trained on the training documents and cached. Else a tokenizer.json."""
    seed: Count | None = None
    """Seed of the order and of the split. Default: the recipe's seed."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """Share of the documents held out."""
    errors: Literal["strict", "replace"] = "strict"
    """A file that is not UTF-8: `strict` stops and names it, `replace` puts U+FFFD instead."""
    cache_dir: str | None = None
    """Where token files are kept. Default: $SUREFOOT_CACHE, else ~/.cache/surefoot."""


class Training(Section):
    """Where and how the loop runs."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes CUDA if there is one."""
    threads: Annotated[int, Field(gt=0, le=4096)] | None = None
    """CPU threads of torch, at most 64 or 4 a processor; bit equality is promised for the same
    number only. Default: torch's."""
    compile: bool = False
    """torch.compile; bit equality across a resume is not promised then."""


class Evaluation(Section):
    """Validation loss."""

    every: Count = 100
    """Steps between evaluations, and one at the end; 0 = at the end only."""
    samples: Positive = 64
    """Sequences of the held-out documents."""


class Checkpoint(Section):
    """When to save and what to keep."""

    every: Positive = 100
    """Steps between checkpoints; one more is made at the end."""
    keep_newest: Positive = 3
    """Newest ones kept; older ones are kept at 1, 2, 4, 8 ... intervals back."""
    confirm_after: Count = 50
    """Healthy steps after which a checkpoint counts as confirmed."""


class Signals(Section):
    """What is measured, and how often."""

    sample_every: Positive = 20
    """Steps between the signals that cost more: update sizes, Adam's RMS, share below eps,
    attention logits."""
    attention_sequences: Positive = 1
    """Sequences on which attention logits are measured."""


class Detection(Section):
    """What the detector's findings do. Stop and explain is the default."""

    on_divergence: Literal["halt", "report"] = "halt"
    """On a divergence (SPK003): `halt` stops at the last good checkpoint, `report` only tells."""
    on_nonfinite: Literal["halt", "skip"] = "halt"
    """On a NaN or infinity (SPK004): `halt`, or `skip` and say so. The update is never made."""

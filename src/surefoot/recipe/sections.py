"""The sections of a recipe: what people write, with a unit and a reason for each field."""

from typing import Annotated, Literal

from pydantic import Field

from surefoot.recipe.architecture import Architecture
from surefoot.recipe.bounds import (
    Count,
    NonNegative,
    Positive,
    Rate,
    Section,
    Sequences,
    Share,
    Steps,
)
from surefoot.recipe.init import Init
from surefoot.recipe.optimizer import Optimizer

__all__ = [
    "Architecture",
    "Batch",
    "Checkpoint",
    "Count",
    "Data",
    "DataSource",
    "Detection",
    "Evaluation",
    "Init",
    "Loss",
    "Optimizer",
    "Precision",
    "Schedule",
    "Section",
    "Signals",
    "Training",
]


class Loss(Section):
    """Terms beside the cross-entropy."""

    z_loss_weight: NonNegative = 1e-4
    """Weight of mean(log Z ^ 2); it is measured at weight 0 too."""
    balance_loss_weight: NonNegative = 0.01
    """Weight of the loss that evens the load of experts (experts only)."""
    router_z_loss_weight: NonNegative = 0.001
    """Weight of the z-loss of the router's logits (experts only)."""


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
    length_from: Positive | None = None
    """First sequence length of a sequence-length warm-up: sequences are cut, what is cut off is not
    fed. It grows by eights over `length_steps` to `architecture.sequence_length`."""
    length_steps: Positive | None = None
    """Steps of the sequence-length warm-up."""


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

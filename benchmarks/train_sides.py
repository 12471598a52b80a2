"""The loops that the speed benchmarks compare: bare PyTorch, transformers' Llama, and surefoot."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot import runs
from surefoot.detect import LossDetector
from surefoot.init import initialise
from surefoot.model import Decoder
from surefoot.optim import build_optimizer
from surefoot.recipe import Recipe, load
from surefoot.records import StepRecord, TrainSpec
from surefoot.signals import Meter, peak_memory
from surefoot.train.ranks import Ranks
from surefoot.train.step import TrainStep

RECIPE = Path(__file__).parents[1] / "recipes" / "stdlib-1m.toml"
SHAPES = {
    "1m": (),
    "27m": (
        "architecture.width=512", "architecture.layers=8", "architecture.heads=8",
        "architecture.kv_heads=4", "architecture.vocab_size=8192", "batch.global_size=4",
    ),
    "tiny": (
        "architecture.width=32", "architecture.layers=2", "architecture.vocab_size=256",
        "architecture.sequence_length=32", "batch.global_size=4",
    ),
}  # fmt: skip
CPU = torch.device("cpu")


def recipe_of(shape: str) -> Recipe:
    recipe, _ = load(RECIPE, list(SHAPES[shape]))
    return recipe.resolved()


def batch_of(recipe: Recipe) -> Tensor:
    """Sequences of tokens by Zipf's law."""
    a = recipe.architecture
    draw = np.random.default_rng(0)
    weights = 1 / np.arange(1, a.vocab_size + 1)
    size = (recipe.batch.global_size, a.sequence_length + 1)
    return torch.from_numpy(draw.choice(a.vocab_size, size, p=weights / weights.sum()))


def decoder_of(recipe: Recipe) -> Decoder:
    a = recipe.architecture
    model = Decoder(a)
    initialise(model, model.roles(), recipe.init, width=a.width, layers=a.layers, seed=recipe.seed)
    return model


class Plain:
    """The bare loop: what people write who measure nothing."""

    def __init__(self, recipe: Recipe, llama: bool = False) -> None:
        self.batch = batch_of(recipe)
        self.model = llama_of(recipe) if llama else decoder_of(recipe)
        o = recipe.optimizer
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, betas=(o.beta1, o.beta2), eps=o.eps,
            weight_decay=o.weight_decay, fused=True,
        )  # fmt: skip
        self.llama = llama

    def step(self, sampled: bool = False) -> None:
        """Forward, backward, clip, update."""
        inputs, targets = self.batch[:, :-1], self.batch[:, 1:]
        output = self.model(inputs, use_cache=False).logits if self.llama else self.model(inputs)
        F.cross_entropy(output.flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def llama_of(recipe: Recipe) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    a = recipe.architecture
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=a.vocab_size,
            hidden_size=a.width,
            intermediate_size=a.inner_width,
            num_hidden_layers=a.layers,
            num_attention_heads=a.heads,
            num_key_value_heads=a.key_value_heads,
            max_position_embeddings=a.sequence_length,
            tie_word_embeddings=a.tied_embeddings,
            attn_implementation="sdpa",
        )
    )


class Surefoot:
    """The trainer's step with all that its loop does for a step, but data loading."""

    def __init__(self, recipe: Recipe) -> None:
        self.batch = batch_of(recipe)
        model = decoder_of(recipe)
        optimizer = build_optimizer(model, recipe.optimizer)
        self.every = recipe.signals.sample_every
        self.meter = Meter(model, optimizer, sample_every=self.every)
        self.train_step = TrainStep(
            model=model,
            wrapped=model,
            optimizer=optimizer,
            meter=self.meter,
            ranks=Ranks(rank=0, world=1, device=CPU),
            micro_size=recipe.batch.global_size,
            clip_norm=recipe.optimizer.clip_norm,
            z_loss_weight=recipe.loss.z_loss_weight,
            attention_sequences=recipe.signals.attention_sequences,
        )
        self.detector = LossDetector(vocab_size=recipe.architecture.vocab_size)
        self.folder = tempfile.TemporaryDirectory()
        self.writer = runs.RunWriter.create(
            Path(self.folder.name) / "run", TrainSpec(name="run"), {}, self.meter.places
        )
        self.number = 0

    def step(self, sampled: bool = False) -> None:
        """The next step at which the sampled signals are measured, or are not."""
        self.number += 1
        while self.meter.is_sampled(self.number) != sampled:
            self.number += 1
        outcome = self.train_step(self.batch, self.number, 1e-4)
        values = dict(outcome.values) | {
            "tokens": self.batch.numel(),
            "step_time": 1.0,
            "memory": peak_memory(CPU),
        }
        self.take(
            self.meter.record(
                self.number, 0, values, sums=outcome.sums, attention=outcome.attention
            )
        )

    def take(self, record: StepRecord | None) -> None:
        """What the loop does with a record."""
        if record is not None:
            self.writer.append(record)
            self.detector.update(record)


SIDES: dict[str, Callable[[Recipe], Plain | Surefoot]] = {
    "plain": Plain,
    "llama": lambda recipe: Plain(recipe, llama=True),
    "surefoot": Surefoot,
}

"""One forward and one backward pass of a subject, and what is read off them."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.probe.attention import Watch
from surefoot.probe.reduce import Plan
from surefoot.probe.subject import Subject, places

# B sequences, T positions, R rows of the vocabulary, C = width, V = vocabulary.


@dataclass(slots=True)
class LayerSeen:
    """What hooks leave of a block, before it is put into words; NaN = nothing came by."""

    stream_rms: float = math.nan
    attention_rms: float = math.nan
    feed_forward_rms: float = math.nan
    stream_gradient: float = math.nan
    parameter_gradient: float = math.nan
    attention_sigma: float | None = None
    feed_forward_sigma: float | None = None
    logit_std: float | None = None
    logit_max: float | None = None
    entropy: float | None = None
    entropy_min: float | None = None


@dataclass(slots=True)
class Seen:
    """What one pass leaves of a model.

    Attributes:
        layers: of each block.
        stream_rms: behind the last block.
        stream_gradient: norm of the gradient there.
        loss: mean cross-entropy, nats.
        loss_error: its standard error.
        logit_std: of the output logits over the vocabulary.
    """

    layers: list[LayerSeen] = field(default_factory=list)
    stream_rms: float = math.nan
    stream_gradient: float = math.nan
    loss: float = math.nan
    loss_error: float = math.nan
    logit_std: float = math.nan


def zipf_tokens(vocab_size: int, plan: Plan, seed: int) -> Tensor:
    """Independent tokens with p proportional to 1/rank, (B, T + 1) int64.

    Zipf's law is near that of text. It matters: where tokens repeat, their embeddings do not
    average out in the attention of the first layers, as those of uniform tokens do.
    """
    generator = torch.Generator().manual_seed(seed)
    # The inverse of the distribution function, by which no table of V is needed.
    uniform = torch.rand(plan.sequences, plan.length + 1, generator=generator, dtype=torch.float64)
    ranks = torch.pow(float(vocab_size + 1), uniform).floor().long() - 1
    return ranks.clamp_(0, vocab_size - 1)


def some_rows(vocab_size: int, tokens: Tensor, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of the vocabulary that stand for all of it in a softmax.

    Every token that occurs is among them; of the others as many as there is room for are drawn, and
    each stands for several: to its logit belongs the log of how many.

    Args:
        vocab_size: V.
        tokens: all that occur.
        rows: how many are wanted; all that occur in any case.
        seed: of the choice.

    Returns:
        The rows (R,) ascending, and what is to be added to their logits, (R,).
    """
    occurring = torch.unique(tokens)
    others = vocab_size - len(occurring)
    wanted = min(max(rows - len(occurring), min(others, len(occurring))), others)
    if wanted == others:
        return torch.arange(vocab_size), torch.zeros(vocab_size)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(vocab_size, generator=generator)
    drawn = drawn[~torch.isin(drawn, occurring)][:wanted]
    chosen = torch.cat((occurring, drawn)).sort().values
    weights = torch.where(torch.isin(chosen, occurring), 0.0, math.log(others / wanted))
    return chosen, weights


def measure(subject: Subject, plan: Plan, seed: int) -> Seen:
    """Feed it, and read off what there is to see.

    Loss and gradients are those of the mean cross-entropy over all tokens; its softmax is over
    ``plan.rows`` of the vocabulary. (The loss of fewer tokens would do for the loss itself, but the
    growth of its gradient is smaller: what several tokens ask of an earlier one adds up.)
    """
    seen = Seen(layers=[LayerSeen() for _ in subject.sub_layers])
    tokens = zipf_tokens(subject.sizes.vocab_size, plan, seed)
    rows, weights = some_rows(subject.sizes.vocab_size, tokens, plan.rows, seed)
    subject.model.zero_grad(set_to_none=True)
    with _hooks(subject, seen) as watch, torch.enable_grad():
        with watch:
            logits = subject.run(tokens[:, :-1], rows).float()
        targets = places(tokens[:, 1:], rows).flatten()
        losses = F.cross_entropy((logits + weights).flatten(0, 1), targets, reduction="none")
        with torch.no_grad():
            seen.logit_std = float(logits.std(dim=-1, correction=0).mean())
            seen.loss = float(losses.mean())
            seen.loss_error = float(losses.std(correction=0)) / math.sqrt(losses.numel())
        losses.mean().backward()  # type: ignore[no-untyped-call]
    for layer, sub_layers, attentions in zip(
        seen.layers, subject.sub_layers, watch.found, strict=True
    ):
        layer.parameter_gradient = _gradient_norm(sub_layers.block)
        layer.logit_std = attentions.logit_std
        if layer.logit_std is not None:
            layer.logit_max = attentions.largest
        by_head = attentions.by_head
        if by_head is not None:
            layer.entropy, layer.entropy_min = float(by_head.mean()), float(by_head.amin())
    subject.model.zero_grad(set_to_none=True)
    return seen


@contextmanager
def _hooks(subject: Subject, seen: Seen) -> Iterator[Watch]:
    watch = Watch(len(subject.sub_layers))
    handles = []
    for index, (layer, modules) in enumerate(zip(seen.layers, subject.sub_layers, strict=True)):
        handles.append(modules.block.register_forward_pre_hook(_enters(layer)))
        handles += [
            modules.attention.register_forward_pre_hook(_attends(watch, index), with_kwargs=True),
            modules.attention.register_forward_hook(_attends(watch, None), with_kwargs=True),
            modules.attention_added.register_forward_hook(_added(layer, "attention_rms")),
            modules.feed_forward_added.register_forward_hook(_added(layer, "feed_forward_rms")),
        ]
        for norm, name in (
            (modules.attention_norm, "attention_sigma"),
            (modules.feed_forward_norm, "feed_forward_sigma"),
        ):
            if norm is not None:
                handles.append(norm.register_forward_pre_hook(_normalised(layer, name)))
    if subject.sub_layers:
        handles.append(subject.sub_layers[-1].block.register_forward_hook(_leaves(seen)))
    try:
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def _enters(layer: LayerSeen) -> Any:
    def hook(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0]
        layer.stream_rms = rms(x)
        _on_gradient(x, lambda g: setattr(layer, "stream_gradient", norm(g)))

    return hook


def _leaves(seen: Seen) -> Any:
    def hook(_module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        x = _tensor(output)
        seen.stream_rms = rms(x)
        _on_gradient(x, lambda g: setattr(seen, "stream_gradient", norm(g)))

    return hook


def _added(layer: LayerSeen, name: str) -> Any:
    def hook(_module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        setattr(layer, name, rms(_tensor(output)))

    return hook


def _normalised(layer: LayerSeen, name: str) -> Any:
    def hook(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0].detach().float()
        variance = x.square().mean() - x.mean(dim=-1).square().mean()
        setattr(layer, name, float(variance.clamp_(min=0).sqrt()))

    return hook


def _attends(watch: Watch, index: int | None) -> Any:
    def hook(*_given: Any) -> None:
        watch.layer = index

    return hook


def _on_gradient(x: Tensor, told: Callable[[Tensor], None]) -> None:
    if x.requires_grad:
        x.register_hook(told)  # type: ignore[no-untyped-call]


def rms(x: Tensor) -> float:
    """Root mean square of all elements."""
    return norm(x) / math.sqrt(max(1, x.numel()))


def norm(x: Tensor) -> float:
    """L2 norm of all elements."""
    return float(torch.linalg.vector_norm(x.detach().float()))


def _gradient_norm(module: nn.Module) -> float:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    if not gradients:
        return 0.0
    return norm(torch.stack([torch.linalg.vector_norm(g.float()) for g in gradients]))


def _tensor(output: Any) -> Tensor:
    """The stream of a module's output, which is alone or first in a tuple."""
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found

"""surefoot's own decoder as a subject: of a recipe, or of what a config.json says."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from surefoot import init as initialisations
from surefoot.model import Decoder
from surefoot.probe.profile import Sizes
from surefoot.probe.subject import Build, Subject, SubLayers, head_rows, places, wider_logits
from surefoot.recipe import Architecture, Init

ACTIVATIONS = {"swiglu": "swiglu", "gelu": "gelu"}


def sizes_of(architecture: Architecture) -> Sizes:
    """The shape of a decoder."""
    a = architecture
    return Sizes(
        layers=a.layers,
        width=a.width,
        heads=a.heads,
        kv_heads=a.key_value_heads,
        head_size=a.head_size,
        ff_width=a.inner_width,
        ff_matrices=3 if a.activation == "swiglu" else 2,
        vocab_size=a.vocab_size,
        experts=a.experts or 1,
        experts_per_token=a.experts_per_token if a.experts else 1,
    )


def decoder_builder(architecture: Architecture, init: Init, *, seed: int, head: float) -> Build:
    """How to build this decoder at any width; see :data:`surefoot.probe.subject.Build`.

    Args:
        architecture: of full width.
        init: how its weights start.
        seed: of the weights.
        head: factor on the logits at full width.
    """

    def build(sizes: Sizes) -> Subject:
        return _build(architecture, init, sizes, seed, head)

    return build


def _build(full: Architecture, init: Init, sizes: Sizes, seed: int, head: float) -> Subject:
    given: Mapping[str, Any] = {
        "layers": sizes.layers,
        "width": sizes.width,
        "heads": sizes.heads,
        "kv_heads": sizes.kv_heads,
        "ff_width": sizes.ff_width,
        "vocab_size": sizes.vocab_size,
        # What follows from the width or the depth is that of the full model.
        "embedding_scale": full.input_factor,
        "head_scale": head,
        # Capped behind the correction for the width.
        "logit_softcap": None,
    }
    if full.experts is not None:
        given = {**given, "experts": sizes.experts}
    if full.norm_placement == "deepnorm":
        given = {**given, "residual_scale": full.shortcut_factor}
    a = full.model_copy(update=dict(given))
    model = Decoder(a)
    width = {"width": sizes.width, "layers": full.layers, "seed": seed}
    base = init
    if init.method == "mup" and init.base_width is not None:
        # Its ratio to the width, not the width itself, is what muP goes by.
        base = init.model_copy(
            update={"base_width": max(1, round(init.base_width * sizes.width / full.width))}
        )
    if hasattr(initialisations, "reparametrise"):
        initialisations.reparametrise(model, model.roles(), base)
    initialisations.initialise(model, model.roles(), base, **width)
    _fold(model)
    model.eval()
    reduction = full.width / sizes.width

    def run(tokens: Tensor, rows: Tensor) -> Tensor:
        matrix = model.embedding.weight if model.head is None else model.head.weight
        with head_rows(model, "head", matrix, rows):
            logits: Tensor = model(tokens)
        if full.tied_embeddings and reduction != 1:
            logits = wider_logits(logits, places(tokens, rows), reduction)
        cap = full.logit_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    return Subject(
        model=model,
        run=run,
        roles=model.roles(),
        sub_layers=tuple(_sub_layers(block) for block in model.layers),
        placement=full.norm_placement,
        sizes=sizes,
        input_factor=full.input_factor,
        tied=full.tied_embeddings,
        gradient_share=full.embedding_gradient,
        activation=ACTIVATIONS[full.activation],
    )


def _sub_layers(block: nn.Module) -> SubLayers:
    def last_of(part: str) -> nn.Module:
        """What stands last before the sum: a factor, a norm, or the sub-layer itself."""
        for name in (f"{part}_layer_scale", f"{part}_output_norm", part):
            module = getattr(block, name, None)
            if isinstance(module, nn.Module):
                return module
        raise AssertionError(part)

    return SubLayers(
        block=block,
        attention=block.get_submodule("attention"),
        attention_added=last_of("attention"),
        feed_forward_added=last_of("feed_forward"),
        attention_norm=getattr(block, "attention_norm", None),
        feed_forward_norm=getattr(block, "feed_forward_norm", None),
    )


def _fold(model: nn.Module) -> None:
    """Plain weights in the place of re-parameterised ones: at the start they are the same."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):  # type: ignore[arg-type]
                parametrize.remove_parametrizations(module, str(name), leave_parametrized=True)

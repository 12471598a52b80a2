"""Fold what a model computes beside its weights into plain weights, and name what cannot be.

::

    folded = fold(model)
    folded.model            # a Decoder of plain nn.Linear and nn.Embedding, with the same logits
    folded.folded           # ("layer_scale", "sigma_reparam", ...)
    folded.kept             # ("norm_placement", "attention_softcap", ...)
"""

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from surefoot.model.decoder import Decoder
from surefoot.model.placement import PLACEMENTS
from surefoot.model.spectral import SigmaReparam
from surefoot.recipe import Architecture

# V = vocabulary, C = width.


class Folded(NamedTuple):
    """A model whose weights hold all that can be folded into them.

    Attributes:
        model: plain, on the device and in the dtype of the given one; it shares no memory with it.
        folded: fields of the architecture that it no longer needs, and "parametrizations" if a
            weight was re-parameterised by anything else.
        kept: fields that change what is computed beside the weights.
    """

    model: Decoder
    folded: tuple[str, ...]
    kept: tuple[str, ...]


@torch.no_grad()
def fold(model: Decoder, *, embedding_scale: Literal["sqrt_width"] | float = 1.0) -> Folded:
    """A plain model with the same logits, but for the rounding of a multiplication here and there.

    - Re-parameterised weights, of any kind, become what they stand for.
    - Scale and norm behind the embedding go into its rows, one by one: a norm acts on a row alone,
      and no position is added. A tied head is untied where the two then differ.
    - The factor of the logits goes into the head.
    - LayerScale goes into the gain of the output's norm, or where there is none into the rows of
      the output matrices.
    - The attention's factor goes into the gain of the queries' norm, or into the query matrix.
    - Query-key layer scaling changes nothing but rounding and is dropped; so is what acts in
      training only: ``embedding_gradient``, ``qk_clip`` and ``expert_capacity``.

    Args:
        model: in any mode, which is left as it is.
        embedding_scale: the factor that the plain model keeps behind its embedding, for a format
            that has one.
    """
    a = model.architecture
    plain = folded_architecture(a, embedding_scale=embedding_scale)
    state = plain_state(model)
    _fold_layers(state, a)
    _fold_ends(state, model, plain)
    with torch.device("meta"):
        result = Decoder(plain)
    result.load_state_dict(state, assign=True)
    for parameter in result.parameters():
        parameter.requires_grad_(True)
    return Folded(result.train(model.training), tuple(_folded(model, plain)), tuple(_kept(plain)))


def folded_names(model: Decoder) -> tuple[str, ...]:
    """What :func:`fold` would fold into the weights, without making the plain model."""
    return tuple(_folded(model, folded_architecture(model.architecture)))


def folded_architecture(
    architecture: Architecture, *, embedding_scale: Literal["sqrt_width"] | float = 1.0
) -> Architecture:
    """That of the plain model which :func:`fold` makes; ``embedding_scale`` as there."""
    a = architecture
    plain = a.model_copy(
        update={
            "embedding_scale": embedding_scale,
            "head_scale": 1.0,
            "embedding_norm": False,
            "embedding_gradient": 1.0,
            "norm_placement": "sandwich" if a.norm_placement == "peri" else a.norm_placement,
            "layer_scale": None,
            "attention_scale": "auto",
            "query_key_layer_scaling": False,
            "sigma_reparam": False,
            "qk_clip": None,
            "expert_capacity": None,
        }
    )
    normed = a.embedding_norm or PLACEMENTS[a.norm_placement].on_embedding
    same = not normed and a.input_factor / plain.input_factor == a.output_factor
    return plain.model_copy(update={"tied_embeddings": a.tied_embeddings and same})


def plain_state(module: nn.Module) -> dict[str, Tensor]:
    """The state dict with each re-parameterised tensor as what it stands for; copies.

    Works for any module and ``torch.nn.utils.parametrize``.
    """
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    for path, inner in module.named_modules():
        if not parametrize.is_parametrized(inner):
            continue
        prefix = f"{path}." if path else ""
        for name in [n for n in state if n.startswith(f"{prefix}parametrizations.")]:
            del state[name]
        parametrizations: Any = inner.parametrizations
        for name, chain in parametrizations.items():
            state[f"{prefix}{name}"] = _worked_out(chain)
    return state


@torch.no_grad()
def _worked_out(chain: nn.Module) -> Tensor:
    # A copy, since a use may change buffers, and not in training only.
    value: Tensor = copy.deepcopy(chain).eval()()
    return value.detach().clone()


def _fold_layers(state: dict[str, Tensor], a: Architecture) -> None:
    on_output = PLACEMENTS[a.norm_placement].on_output
    factor = a.logit_factor * math.sqrt(a.head_size)
    for layer in range(a.layers):
        prefix = f"layers.{layer}."
        if factor != 1:
            query = "attention.q_norm.weight" if a.qk_norm else "attention.wq.weight"
            state[prefix + query] *= factor
        if a.layer_scale is None:
            continue
        for part, output in (("attention", "wo.weight"), ("feed_forward", "w2.weight")):
            scale = state.pop(f"{prefix}{part}_layer_scale.weight")
            if on_output:
                state[f"{prefix}{part}_output_norm.weight"] *= scale
                continue
            for name, tensor in state.items():
                if name.startswith(f"{prefix}{part}.") and name.endswith(f".{output}"):
                    tensor *= scale[:, None]


def _fold_ends(state: dict[str, Tensor], model: Decoder, plain: Architecture) -> None:
    a = model.architecture
    table = state["embedding.weight"]
    if not plain.tied_embeddings:
        state["head.weight"] = state.get("head.weight", table) * a.output_factor
    if model.embedding_norm is not None:
        normed = model.embedding_norm(table * a.input_factor)
        state["embedding.weight"] = normed * (1 / plain.input_factor)
        del state["embedding_norm.weight"]
    else:
        state["embedding.weight"] = table * (a.input_factor / plain.input_factor)


def _folded(model: Decoder, plain: Architecture) -> Iterator[str]:
    a = model.architecture
    for name in type(a).model_fields:
        ours, theirs = _value(a, name), _value(plain, name)
        if name not in ("norm_placement", "tied_embeddings") and ours != theirs:
            yield name
    if a.norm_placement == "peri" and not a.embedding_norm:
        yield "embedding_norm"
    if any(
        parametrize.is_parametrized(inner) and not _all_sigma(inner) for inner in model.modules()
    ):
        yield "parametrizations"


def _all_sigma(module: nn.Module) -> bool:
    chains: Any = module.parametrizations
    return all(isinstance(step, SigmaReparam) for chain in chains.values() for step in chain)


def _kept(plain: Architecture) -> Iterator[str]:
    for name in ("norm_placement", "residual_scale", "qk_norm", "attention_softcap",
                 "logit_softcap", "embedding_scale", "experts"):  # fmt: skip
        if _value(plain, name) != _value(_PLAIN, name):
            yield name


_PLAIN = Architecture(
    layers=1, width=2, heads=1, vocab_size=1, sequence_length=1, qk_norm=False
)  # what a plain decoder computes, for the fields that do not depend on its shape


def _value(a: Architecture, name: str) -> object:
    """A field with words as numbers; factors in units of the plain ones."""
    if name == "attention_scale":
        return a.logit_factor * math.sqrt(a.head_size)
    numbers = {
        "embedding_scale": a.input_factor,
        "head_scale": a.output_factor,
        "residual_scale": a.shortcut_factor,
    }
    return numbers[name] if name in numbers else getattr(a, name)

"""Embed LN for any model: a norm behind its embedding."""

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError
from surefoot.init.families import family_of


def insert_embedding_norm(model: nn.Module, *, eps: float = 1e-5) -> nn.LayerNorm:
    """Put a LayerNorm behind the embedding of a model that has none (Embed LN).

    It stands in the embedding's module as ``embedding_norm``, so no other name changes and a tied
    head stays tied; the residual stream starts with a standard deviation of 1. Call it before the
    optimizer is made, and again on a fresh model before its weights are loaded. Surefoot's decoder
    has ``architecture.embedding_norm`` instead.

    Sources: BLOOM (BigScience 2022, 2211.05100); Takase et al. 2023, 2312.16903.

    Args:
        model: any module with one ``nn.Embedding``, or with ``get_input_embeddings`` as models of
            transformers have.
        eps: added to the variance.

    Returns:
        The norm, with gain 1 and bias 0.

    Raises:
        UsageError: if there is no such embedding, it has a norm already, or the model multiplies
            its embedding by sqrt(width), which has the same effect.
    """
    if getattr(model, "architecture", None) is not None:
        raise UsageError("a decoder has a norm behind its embedding: architecture.embedding_norm")
    family = family_of(model)
    if family is not None and family.scales_embedding:
        raise UsageError(
            "this model multiplies its embedding by sqrt(width): its residual stream is large "
            "without a norm"
        )
    embedding = _embedding(model)
    if hasattr(embedding, "embedding_norm"):
        raise UsageError("the embedding has a norm behind it already")
    weight = embedding.weight
    norm = nn.LayerNorm(weight.shape[-1], eps, device=weight.device, dtype=weight.dtype)
    embedding.embedding_norm = norm
    embedding.register_forward_hook(_normalise)
    return norm


def _normalise(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    normed: Tensor = module.get_submodule("embedding_norm")(output)
    return normed


def _embedding(model: nn.Module) -> nn.Embedding:
    get = getattr(model, "get_input_embeddings", None)
    if callable(get):
        found = [get()]
    else:
        found = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if len(found) != 1 or not isinstance(found[0], nn.Embedding):
        raise UsageError(
            f"expected one nn.Embedding to put a norm behind, found {len(found)}; give the module "
            "that holds the input embedding alone"
        )
    assert isinstance(found[0].weight, torch.Tensor)
    return found[0]

"""Continual pre-training: start from a transformers folder."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from surefoot.export import from_transformers
from surefoot.recipe import Recipe


def adopt(recipe: Recipe, folder: str | Path) -> Recipe:
    """``recipe`` with the architecture and the tokenizer of a transformers folder.

    The sequence length stays the recipe's; a tokenizer that the recipe names stays, too.

    Raises:
        SurefootError: if the folder cannot be used, naming what is not supported.
    """
    shape, _, tokenizer_path = from_transformers(Path(folder))
    architecture = shape.model_copy(update={"sequence_length": recipe.architecture.sequence_length})
    tokenizer = recipe.data.tokenizer
    if tokenizer == "bpe":
        tokenizer = str(tokenizer_path.resolve())
    return recipe.model_copy(
        update={
            "architecture": architecture,
            "init": recipe.init.model_copy(update={"pretrained": str(Path(folder).resolve())}),
            "data": recipe.data.model_copy(update={"tokenizer": tokenizer}),
        }
    )


def weights(folder: str) -> Mapping[str, Tensor]:
    """The decoder's state dict from a transformers folder."""
    return from_transformers(Path(folder))[1]

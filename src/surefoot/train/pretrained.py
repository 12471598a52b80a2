"""Continual pre-training: start from a transformers folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from surefoot.errors import RecipeError
from surefoot.export import from_transformers
from surefoot.model.upcycle import upcycled_state
from surefoot.recipe import Init, Recipe
from surefoot.records import Source

_KEPT = (
    "sequence_length", "qk_clip", "embedding_gradient", "query_key_layer_scaling",
    "expert_capacity",
)  # fmt: skip
"""Fields that say how to train a model, not what it computes: they stay the recipe's."""

_OF_EXPERTS = ("experts", "experts_per_token")
"""Fields that stay the recipe's where the folder's model is dense: it is up-cycled to them."""


def adopt(
    recipe: Recipe, sources: Mapping[str, Source], folder: str | Path
) -> tuple[Recipe, dict[str, Source]]:
    """The recipe with the architecture and the tokenizer of a transformers folder.

    The sequence length stays the recipe's; a tokenizer that the recipe names stays, too.

    Args:
        recipe: what is asked for.
        sources: where each value was stated; what comes from the folder is marked as such.
        folder: what ``save_pretrained`` wrote.

    Raises:
        RecipeError: if ``--set`` asks for another architecture than the folder's.
        SurefootError: if the folder cannot be used, naming what is not supported.
    """
    shape, _, tokenizer_path = from_transformers(Path(folder))
    changes: dict[str, dict[str, Any]] = {"architecture": {}, "init": {}, "data": {}}
    for name, stated in sources.items():
        if name.startswith("init.") and name != "init.pretrained" and stated.kind == "flag":
            raise RecipeError(
                f"{stated.flag}: with --init-from nothing is drawn: leave that --set out"
            )
    mine, theirs = (
        recipe.resolved().architecture,
        recipe.model_copy(update={"architecture": shape}).resolved().architecture,
    )
    for name in type(shape).model_fields:
        if name in _KEPT or (name in _OF_EXPERTS and shape.experts is None):
            continue
        source = sources.get(f"architecture.{name}")
        if getattr(mine, name) != getattr(theirs, name) and source is not None:
            if source.kind == "flag":
                raise RecipeError(
                    f"{source.flag}: the model in {folder} has {name} = {getattr(theirs, name)!r}, "
                    "which --init-from takes over: leave that --set out"
                )
        changes["architecture"][name] = getattr(shape, name)
    changes["init"]["pretrained"] = str(Path(folder).resolve())
    if recipe.data.tokenizer == "bpe":
        changes["data"]["tokenizer"] = str(tokenizer_path.resolve())
    config = Source(kind="config", file=str(Path(folder) / "config.json"))
    marked = dict(sources)
    for section, values in changes.items():
        marked |= {f"{section}.{name}": config for name in values}
    sections = {
        section: getattr(recipe, section).model_copy(update=values)
        for section, values in changes.items()
    }
    # What is drawn is of no meaning then, and need not fit the architecture of the folder.
    sections["init"] = Init(pretrained=changes["init"]["pretrained"])
    adopted = recipe.model_copy(update=sections)
    # The checks over several fields once more: the folder's architecture is not what was read.
    return Recipe.parse(adopted.model_dump(exclude_none=True), where=str(folder)), marked


def weights(folder: str, recipe: Recipe) -> Mapping[str, Tensor]:
    """The decoder's state dict from a transformers folder.

    Where the recipe asks for experts and the folder's model is dense, every expert starts as a
    copy of its feed-forward block (Komatsuzaki et al. 2022, 2212.05055); the logits are the same.

    Raises:
        SurefootError: if the folder cannot be used, naming what is not supported.
    """
    shape, state, _ = from_transformers(Path(folder))
    if recipe.architecture.experts is None or shape.experts is not None:
        return state
    return upcycled_state(state, recipe.architecture, seed=recipe.seed)

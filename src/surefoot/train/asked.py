"""Whether a recipe asks for the run that is there."""

from typing import Any

from surefoot.errors import RecipeError
from surefoot.recipe import Recipe
from surefoot.records import TrainSpec

# What the run found by itself; the name is the recipe's and changes nothing.
_FOUND = ("data.content_sha256", "data.tokenizer_sha256", "name")


def require_same(spec: TrainSpec, asked: Recipe, name: str) -> None:
    """Refuse to resume a run with a recipe that asks for another one.

    Args:
        spec: what the run was started with.
        asked: the recipe given with ``--resume``.
        name: of the run, for the message.

    Raises:
        RecipeError: listing the fields that differ.
    """
    was, now = _flat(spec), _flat(asked.to_spec())
    differing = [
        f"{field} (run: {was.get(field)!r}, asked: {now.get(field)!r})"
        for field in sorted(was.keys() | now.keys())
        if was.get(field) != now.get(field)
    ]
    if differing:
        raise RecipeError(
            f"run {name!r} was started with other settings: {'; '.join(differing)}. Resume it "
            f"without a recipe: surefoot train --name {name} --resume"
        )


def _flat(spec: TrainSpec) -> dict[str, Any]:
    """Settings by dotted name; what the run itself found (content hash) is not a setting."""
    found = {k: v for k, v in spec.stated().items() if k not in _FOUND}
    for section, values in spec.options.items():
        for key, value in values.items():
            found[f"{section}.{key}"] = value
    return found

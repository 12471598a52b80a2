"""surefoot's own: recipes, and the spec.toml of a run folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.errors import ConfigError
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, Statement
from surefoot.records import TrainSpec

_SECTIONS = ("architecture", "optimizer", "schedule", "batch", "data")


class Surefoot(ConfigFormat):
    """Read by the parts that read it elsewhere; an invalid recipe is an error."""

    name = "surefoot"
    title = "surefoot"
    kinds = frozenset({"toml"})

    def score(self, document: Document) -> float:
        """All the sections that a recipe needs."""
        there = {key.partition(".")[0].partition("[")[0] for key in document.leaves}
        if document.kind != "toml" or not there.issuperset(_SECTIONS):
            return 0.0
        return 1.0

    def knows(self, key: str) -> bool:
        """Every key: an unknown one is refused on reading."""
        return True

    def read(self, document: Document) -> Draft:
        """The spec of the file.

        Raises:
            RecipeError: an invalid recipe.
            ConfigError: a damaged spec.toml.
        """
        draft = Draft(self, document)
        spec = _spec(document)
        for field, value in spec.stated().items():
            source = spec.sources.get(field)
            leaf = draft.leaves.get(field)
            draft.statements[field] = Statement(
                field=field,
                value=value,
                key=field,
                path=document.path,
                line=leaf.line if leaf is not None else None,
                kind=source.kind if source is not None else "recipe" if leaf else "default",
                format=self.name,
            )
        document.leaves = {
            key: leaf for key, leaf in document.leaves.items() if key not in draft.statements
        }
        return draft

    def trainer(self, draft: Draft) -> str:
        """As its specs are marked."""
        return "surefoot"

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """Nothing: a recipe is complete."""
        return {}


def _spec(document: Document) -> TrainSpec:
    from surefoot.recipe import load
    from surefoot.runs.spec import decode_spec

    path = Path(document.path)
    if "format" not in document.leaves:
        recipe, sources = load(path)
        return recipe.to_spec(sources)
    try:
        return decode_spec(path.read_bytes(), str(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


FORMAT = Surefoot()

"""Recipes: what people write to ask for a run. Pydantic validates here, and only here.

::

    from surefoot.recipe import load
    recipe, sources = load("recipes/stdlib-1m.toml", ["schedule.steps=100"])
    recipe.optimizer.learning_rate
    spec = recipe.to_spec(sources)        # the normal form of every trainer

A section can be used alone: ``Decoder(Architecture(layers=2, width=64, ...))``.
"""

from surefoot.recipe.load import load, override
from surefoot.recipe.recipe import Recipe
from surefoot.recipe.sections import (
    Architecture,
    Batch,
    Checkpoint,
    Data,
    DataSource,
    Detection,
    Evaluation,
    Init,
    Loss,
    Optimizer,
    Precision,
    Schedule,
    Section,
    Signals,
    Training,
)
from surefoot.recipe.size import check_size, require_fits

__all__ = [
    "Architecture",
    "Batch",
    "Checkpoint",
    "Data",
    "DataSource",
    "Detection",
    "Evaluation",
    "Init",
    "Loss",
    "Optimizer",
    "Precision",
    "Recipe",
    "Schedule",
    "Section",
    "Signals",
    "Training",
    "check_size",
    "load",
    "override",
    "require_fits",
]

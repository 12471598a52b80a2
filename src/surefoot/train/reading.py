"""Read back what a run made and was fed: its model, its batches."""

from dataclasses import dataclass
from pathlib import Path

import torch

from surefoot import runs
from surefoot.checkpoint import CheckpointStore, training_tensors
from surefoot.data import ShownSample, samples_of_step
from surefoot.errors import CheckpointError, RunFolderError
from surefoot.model import Decoder
from surefoot.recipe import Recipe
from surefoot.train.build import plain_model
from surefoot.train.feed import corpus_of_run, kept_tokenizer
from surefoot.train.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model read back from a run.

    Attributes:
        model: on the CPU, in eval mode.
        step: updates made when it was saved.
        tokenizer_path: of the run's ``tokenizer.json``.
        end_of_text: the token that ends a document.
    """

    model: Decoder
    step: int
    tokenizer_path: Path
    end_of_text: int


def load_model(folder: Path, step: int | None = None) -> LoadedModel:
    """The decoder of a run; neither its data nor its optimizer is needed.

    Args:
        folder: the run folder.
        step: which checkpoint; None for the newest that is not quarantined.

    Raises:
        CheckpointError: if there is no such checkpoint or it is not intact.
        DataError: if the run's tokenizer is missing or altered.
    """
    spec = runs.read_spec(folder)
    recipe = Recipe.from_spec(spec)
    store = CheckpointStore(folder / "checkpoints")
    at = store.latest() if step is None else step
    if at is None:
        raise CheckpointError(f"run {folder.name!r} has no trusted checkpoint yet")
    model = plain_model(recipe)
    tensors, _ = training_tensors(model, None)
    state = store.load(at, tensors, partial=True)
    return LoadedModel(
        model=model.eval(),
        step=at,
        tokenizer_path=kept_tokenizer(folder, spec),
        end_of_text=state["end_of_text"],
    )


def shown_batch(folder: Path, step: int) -> list[ShownSample]:
    """What a step fed the model, sample by sample.

    Raises:
        RunFolderError: if the run has no such step.
        DataError: if the data is no longer what the run was fed.
    """
    run = runs.open(folder)
    rows = run.signals.filter(run.signals["step"] == step)
    if rows.is_empty() or "consumed_samples" not in rows.columns:
        steps = run.signals["step"].to_list()
        known = f"steps {steps[0]} to {steps[-1]}" if steps else "no steps"
        raise RunFolderError(f"run {folder.name!r} has no record of step {step}; it has {known}")
    size = int(rows["batch_size"][0])
    first = int(rows["consumed_samples"][0]) - size
    recipe = Recipe.from_spec(run.spec)
    alone = Ranks(rank=0, world=1, device=torch.device("cpu"))
    corpus = corpus_of_run(folder, run.spec, recipe, alone, lambda line: None)
    return samples_of_step(corpus, first, size)


def finished_at(folder: Path) -> int | None:
    """The last step of a run that came to its end with an intact checkpoint of it; else None."""
    recipe = Recipe.from_spec(runs.read_spec(folder))
    events = runs.open(folder).events
    steps = recipe.schedule.steps
    if not events or events[-1].kind != "finished" or events[-1].step != steps:
        return None
    return steps if CheckpointStore(folder / "checkpoints").resumable() == steps else None

"""Build everything a run needs from its recipe, and take up the state where it has one."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from surefoot import runs
from surefoot.checkpoint import CheckpointStore
from surefoot.data import BatchRamp, Corpus, prepare
from surefoot.detect import LossDetector
from surefoot.errors import DataError
from surefoot.init import initialise
from surefoot.model import Decoder
from surefoot.optim import LossScaler, build_optimizer
from surefoot.recipe import Recipe
from surefoot.records import Source
from surefoot.signals import Meter
from surefoot.train.asked import require_same
from surefoot.train.custody import Custody
from surefoot.train.environment import fingerprint
from surefoot.train.job import Job
from surefoot.train.pretrained import weights
from surefoot.train.ranks import Ranks
from surefoot.train.state import TrainState
from surefoot.train.step import TrainStep

Say = Callable[[str], None]

TOKENIZER = "tokenizer.json"


def create(
    recipe: Recipe,
    sources: Mapping[str, Source],
    folder: Path,
    ranks: Ranks,
    say: Say,
) -> Job:
    """A new run, its folder made and its checkpoint of step 0 saved.

    Args:
        recipe: what is asked for.
        sources: where each value was stated.
        folder: the run folder; must not exist.
        ranks: this process.
        say: told what goes on, a line at a time.
    """
    recipe = recipe.resolved()
    corpus = prepare_corpus(recipe, ranks, say)
    step = _build(recipe, ranks)
    _initialise(step.model, recipe)
    spec = recipe.to_spec(sources)
    spec = replace(spec, data=replace(spec.data, content_sha256=corpus.content_sha256))
    writer = None
    if ranks.is_main:
        writer = runs.RunWriter.create(folder, spec, fingerprint(ranks), step.meter.places)
        _keep_tokenizer(folder, corpus)
    ranks.barrier()
    job = _job(recipe, folder, ranks, corpus, step, writer)
    job.save()
    _caution(recipe, say)
    return job


def resume(folder: Path, ranks: Ranks, say: Say, asked: Recipe | None = None) -> Job:
    """Go on with a run from its newest usable checkpoint.

    Args:
        folder: the run folder.
        ranks: this process.
        say: told what goes on.
        asked: a recipe that was given with ``--resume``; must ask for the same run.

    Raises:
        RecipeError: listing the fields in which ``asked`` differs.
        DataError: if the data is no longer what the run was started on.
    """
    spec = runs.read_spec(folder)
    recipe = Recipe.from_spec(spec)
    if asked is not None:
        require_same(spec, asked, folder.name)
    corpus = prepare_corpus(recipe, ranks, say)
    kept = folder / TOKENIZER
    if kept.is_file() and kept.read_bytes() != corpus.tokenizer_path.read_bytes():
        # Trained anew, by another version of the library, it would change every token.
        data = recipe.data.model_copy(update={"tokenizer": str(kept)})
        corpus = prepare_corpus(recipe.model_copy(update={"data": data}), ranks, say)
    if spec.data.content_sha256 not in (None, corpus.content_sha256):
        raise DataError(
            f"the data of run {folder.name!r} has changed: its content hash was "
            f"{str(spec.data.content_sha256)[:12]}, now it is {corpus.content_sha256[:12]}; "
            "restore the files (or the Python version, for stdlib), or start a new run"
        )
    step = _build(recipe, ranks)
    store = _store(recipe, folder, ranks)
    at = store.resumable(report=say)
    if at is None:
        # Killed before its first checkpoint was whole: nothing is lost by starting over.
        _initialise(step.model, recipe)
    writer = None
    if ranks.is_main:
        writer = runs.RunWriter.resume(folder, at or 0, step.meter.places)
        _keep_tokenizer(folder, corpus)
    ranks.barrier()
    # Under the writer's lock. What lies beyond belongs to a history that is given up.
    store.abandon_after(at or 0)
    job = _job(recipe, folder, ranks, corpus, step, writer)
    if at is None:
        job.save()
    else:
        job.restore(at)
    job.custody.take_up()
    say(f"resuming {folder.name} at step {at or 0}")
    _caution(recipe, say)
    return job


def _caution(recipe: Recipe, say: Say) -> None:
    if recipe.training.compile:
        say("with torch.compile a resumed run is not promised to be equal bit for bit")


def _keep_tokenizer(folder: Path, corpus: Corpus) -> None:
    """The run folder keeps its tokenizer, so that its model can be exported without the data."""
    runs.write_atomic(folder / TOKENIZER, corpus.tokenizer_path.read_bytes())


def _initialise(model: Decoder, recipe: Recipe) -> None:
    if recipe.init.pretrained is not None:
        model.load_state_dict(dict(weights(recipe.init.pretrained)))
        return
    a = recipe.architecture
    initialise(model, model.roles(), recipe.init, width=a.width, layers=a.layers, seed=recipe.seed)


def prepare_corpus(recipe: Recipe, ranks: Ranks, say: Say) -> Corpus:
    """Token files are built by the first rank; the others find them in the cache."""

    def build() -> Corpus:
        a, d = recipe.architecture, recipe.data
        return prepare(
            d,
            vocab_size=a.vocab_size,
            sequence_length=a.sequence_length,
            seed=recipe.data_seed,
            cache_dir=None if d.cache_dir is None else Path(d.cache_dir),
            progress=say if ranks.is_main else None,
        )

    corpus = build() if ranks.is_main else None
    ranks.barrier()
    return corpus or build()


def _build(recipe: Recipe, ranks: Ranks) -> TrainStep:
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    random.seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    model = Decoder(recipe.architecture).to(ranks.device)
    optimizer = build_optimizer(model, recipe.optimizer)
    meter = Meter(
        model, optimizer, sample_every=recipe.signals.sample_every, process_group=ranks.group
    )
    wrapped = ranks.wrap(model)
    if recipe.training.compile:
        wrapped = torch.compile(wrapped)  # type: ignore[assignment]
    scaler = None
    if recipe.precision.compute == "fp16":
        scaler = LossScaler(recipe.precision.initial_loss_scale, device=ranks.device)
    return TrainStep(
        model=model,
        wrapped=wrapped,
        optimizer=optimizer,
        meter=meter,
        ranks=ranks,
        micro_size=recipe.batch.micro_size or recipe.batch.global_size,
        clip_norm=recipe.optimizer.clip_norm,
        z_loss_weight=recipe.loss.z_loss_weight,
        precision=recipe.precision.compute,
        scaler=scaler,
        attention_sequences=recipe.signals.attention_sequences,
    )


def _store(recipe: Recipe, folder: Path, ranks: Ranks) -> CheckpointStore:
    return CheckpointStore(
        folder / "checkpoints",
        keep_newest=recipe.checkpoint.keep_newest,
        interval=recipe.checkpoint.every,
        process_group=ranks.group,
    )


def _job(
    recipe: Recipe,
    folder: Path,
    ranks: Ranks,
    corpus: Corpus,
    step: TrainStep,
    writer: runs.RunWriter | None,
) -> Job:
    store = _store(recipe, folder, ranks)
    return Job(
        recipe=recipe,
        folder=folder,
        ranks=ranks,
        corpus=corpus,
        ramp=BatchRamp(recipe.batch),
        step=step,
        detector=LossDetector(vocab_size=recipe.architecture.vocab_size),
        store=store,
        custody=Custody(store, recipe.checkpoint.confirm_after),
        state=TrainState(),
        writer=writer,
    )

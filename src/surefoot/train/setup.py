"""Build everything a run needs from its recipe, and take up the state where it has one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from surefoot import runs
from surefoot.checkpoint import CheckpointStore
from surefoot.data import BatchRamp, Corpus
from surefoot.errors import CheckpointError
from surefoot.recipe import Recipe, require_fits
from surefoot.records import Source
from surefoot.train.build import build_step, start_weights
from surefoot.train.custody import Custody
from surefoot.train.feed import Say, corpus_of_run, keep_tokenizer, prepare_corpus, recorded
from surefoot.train.job import Job
from surefoot.train.ranks import Ranks
from surefoot.train.state import TrainState
from surefoot.train.step import TrainStep
from surefoot.watching import Recorder, default_detector, fingerprint, note_changes


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
    require_fits(recipe, cpu=ranks.device.type == "cpu", ranks=ranks.world)
    corpus = prepare_corpus(recipe, ranks, say)
    step = build_step(recipe, ranks)
    start_weights(step.model, recipe)
    spec = recorded(recipe.to_spec(sources), corpus)
    writer = None
    if ranks.is_main:
        writer = runs.RunWriter.create(
            folder, spec, fingerprint(ranks.device, ranks.world), step.meter.places
        )
        keep_tokenizer(folder, corpus)
    ranks.barrier()
    job = _job(recipe, folder, ranks, corpus, step, writer)
    job.save()
    _caution(recipe, say)
    passes = corpus.train.epochs(job.ramp.consumed_after(recipe.schedule.steps))
    if passes > 1.5:
        say(f"the training text is passed over {passes:.1f} times in this run")
    return job


def resume(folder: Path, ranks: Ranks, say: Say, *, warn: Say | None = None) -> Job:
    """Go on with a run from its newest usable checkpoint.

    Args:
        folder: the run folder.
        ranks: this process.
        say: told what goes on.
        warn: told what is wrong with the folder, and where the environment differs; default `say`.

    Raises:
        CheckpointError: if there were checkpoints and none is intact.
        DataError: if the data is no longer what the run was started on.
    """
    warn = warn or say
    spec = runs.read_spec(folder)
    recipe = Recipe.from_spec(spec)
    corpus = corpus_of_run(folder, spec, recipe, ranks, say)
    step = build_step(recipe, ranks)
    store = _store(recipe, folder, ranks)
    damaged: list[str] = []
    at = store.resumable(report=damaged.append)
    if at is None:
        _require_unsaved(folder, damaged)
        start_weights(step.model, recipe)
    writer = None
    if ranks.is_main:
        writer = runs.RunWriter.resume(folder, at or 0, step.meter.places, problems=damaged)
        keep_tokenizer(folder, corpus)
        for problem in dict.fromkeys([*damaged, *writer.problems]):
            warn(problem)
        _compare_environment(writer, ranks, warn)
    ranks.barrier()
    # Under the writer's lock. What lies beyond belongs to a history that is given up.
    store.abandon_after(at or 0)
    job = _job(recipe, folder, ranks, corpus, step, writer)
    if at is None:
        job.save()
    else:
        job.restore(at)
    job.custody.take_up()
    again = writer.rows_moved if writer is not None else 0
    lost = f"; {again} recorded steps after it are taken again" if again else ""
    say(f"resuming {folder.name} at step {at or 0} of {recipe.schedule.steps}{lost}")
    _caution(recipe, say)
    return job


def _caution(recipe: Recipe, say: Say) -> None:
    if recipe.training.compile:
        say("with torch.compile a resumed run is not promised to be equal bit for bit")


def _require_unsaved(folder: Path, damaged: Sequence[str]) -> None:
    """Starting over is right only for a run that was killed before its first checkpoint."""
    if any(event.kind == "checkpoint" for event in runs.open(folder).events):
        why = "; ".join(damaged) or f"{folder / 'checkpoints'} has none left"
        raise CheckpointError(
            f"run {folder.name!r} has no intact checkpoint to go on from ({why}); nothing was "
            "changed: restore one, or start a new run"
        )


def _compare_environment(writer: runs.RunWriter, ranks: Ranks, warn: Say) -> None:
    """A resume elsewhere is allowed, and told: bit equality holds on the same ground only."""
    changed = note_changes(writer, fingerprint(ranks.device, ranks.world))
    if changed:
        warn(
            f"{', '.join(changed)} differ from when the run was started: it goes on, but not bit "
            "for bit as it would have"
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

    def trusted() -> list[int]:
        return [info.step for info in store.infos() if info.status != "quarantined"]

    detector = default_detector(vocab_size=recipe.architecture.vocab_size, places=step.meter.places)
    return Job(
        recipe=recipe,
        folder=folder,
        ranks=ranks,
        corpus=corpus,
        ramp=BatchRamp(recipe.batch),
        step=step,
        recorder=Recorder(
            step.meter, detector, writer=writer, name=folder.name, checkpoints=trusted
        ),
        store=store,
        custody=Custody(store, recipe.checkpoint.confirm_after),
        state=TrainState(),
    )

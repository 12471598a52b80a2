"""What ``surefoot train`` does: check the request, run the job, tell how it ended."""

import contextlib
import math
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from surefoot.cli.console import printable, say
from surefoot.errors import RunFolderError, UsageError, require

if TYPE_CHECKING:
    from surefoot.recipe import Recipe
    from surefoot.records import Source
    from surefoot.train import Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of ``surefoot train``."""

    recipe: Path | None
    name: str | None
    resume: bool
    settings: tuple[str, ...]
    init_from: Path | None
    runs_dir: Path
    quiet: bool


def run(request: Request) -> int:
    """Carry out the request; returns the exit status."""
    # Outside the loop, which finishes its step first, a SIGTERM is to end this with a word.
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminate)
    recipe, sources = _recipe(request)
    folder = request.runs_dir / _name(request, recipe)
    # What can be refused is refused before torch loads: an error should not take seconds.
    exists = (folder / "spec.toml").is_file()
    if request.resume and not exists:
        from surefoot.cli.paths import run_folder

        run_folder(Path(folder.name), request.runs_dir)
    if not request.resume and folder.exists():
        raise RunFolderError(
            f"run {folder.name!r} exists in {request.runs_dir}: give --resume to go on with it, or "
            "another --name"
        )
    if request.settings and recipe is None:
        raise UsageError("--set changes a recipe; with --resume the run keeps its own settings")
    require("torch", "torch")
    from surefoot import runs
    from surefoot.cli.progress import Progress
    from surefoot.recipe import Recipe
    from surefoot.train import (
        adopt,
        create,
        finished_at,
        join,
        leave,
        require_same,
        resume,
        train,
    )

    if recipe is not None and request.init_from is not None:
        recipe, sources = adopt(recipe, sources, request.init_from)
    own = Recipe.from_spec(runs.read_spec(folder)) if request.resume else recipe
    assert own is not None
    ranks = join(own.training.device)
    warn = say if ranks.is_main else _silent
    speak = _silent if request.quiet else warn
    try:
        if request.resume:
            if recipe is not None:
                require_same(runs.read_spec(folder), recipe, folder.name)
            last = finished_at(folder)
            if last is not None:
                return _tell_finished(folder, last) if ranks.is_main else 0
            job = resume(folder, ranks, speak, warn=warn)
        else:
            job = create(own, sources, folder, ranks, speak)
        outcome = train(job, Progress(job, speak))
        return _tell(job, outcome) if ranks.is_main else _status(outcome)
    finally:
        leave()


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _silent(line: str) -> None:
    """Say nothing."""


def _tell_finished(folder: Path, last: int) -> int:
    typer.echo(
        f"run {folder.name!r} is finished: step {last} of {last}; look at it with  surefoot report "
        f"{folder}, train on with  surefoot export  and  surefoot train ... --init-from"
    )
    return 0


def _recipe(request: Request) -> "tuple[Recipe | None, dict[str, Source]]":
    from surefoot.recipe import load

    if request.recipe is None:
        if not request.resume:
            raise UsageError(
                "no recipe given: type  surefoot train recipes/stdlib-1m.toml --name first"
            )
        return None, {}
    return load(request.recipe, request.settings)


def _name(request: Request, recipe: "Recipe | None") -> str:
    name = request.name
    if name is None and recipe is not None and request.recipe is not None:
        name = recipe.name or request.recipe.stem
    if name is None:
        raise UsageError("which run? type  surefoot train --name NAME --resume")
    if not re.fullmatch(r"[\w][\w.\-]*", name):
        raise UsageError(
            f"--name {name!r}: expected letters, digits, '.', '-' and '_', as in first-try"
        )
    return name


def _status(outcome: "Outcome") -> int:
    if outcome.halted:
        return 3
    if outcome.interrupted is not None:
        return 128 + outcome.interrupted
    return 1 if any(finding.severity == "error" for finding in outcome.findings) else 0


def _tell(job: "Job", outcome: "Outcome") -> int:
    """Print how the run ended; the last lines are what a newcomer looks for."""
    if outcome.interrupted is not None:
        name = signal.Signals(outcome.interrupted).name
        typer.echo(
            f"{name}: stopped after step {outcome.step}, checkpoint written; go on with  "
            f"surefoot train --name {job.folder.name} --resume"
        )
        return _status(outcome)
    if outcome.halted:
        for finding in outcome.halted:
            typer.echo(f"{finding.code} {finding.message}")
            for action in finding.actions:
                typer.echo(f"  - {action}")
        good = job.store.latest()
        typer.echo(
            f"halted after step {outcome.step}; last good checkpoint: step {good}; "
            f"post-mortem: {job.folder / 'postmortem.md'}"
        )
    else:
        _tell_result(job, outcome)
    typer.echo(f"report: {_report(job)}")
    return _status(outcome)


def _tell_result(job: "Job", outcome: "Outcome") -> None:
    from surefoot.data import baselines
    from surefoot.train import sample

    unigram, bigram = baselines(job.corpus, job.recipe.evaluation.samples)
    rows = [("surefoot", outcome.validation_loss), ("bigram", bigram), ("unigram", unigram)]
    typer.echo("validation loss in nats per token (lower is better):")
    for label, value in rows:
        typer.echo(
            f"  {label:<9} {value:.3f}" if value is not None else f"  {label:<9} not measured"
        )
    if outcome.validation_loss is None or not math.isfinite(outcome.validation_loss):
        typer.echo("no sample: the model's output is not finite")
        return
    written = sample(job.step.model, job.corpus, "def ", tokens=120, seed=job.recipe.seed)
    typer.echo("a sample the model wrote:")
    for line in written.splitlines():
        typer.echo(f"  | {printable(line)}")


def _report(job: "Job") -> Path:
    from surefoot import runs
    from surefoot.detect import diagnose
    from surefoot.report import write_html

    opened = runs.open(job.folder)
    path = job.folder / "report.html"
    write_html(opened, diagnose(opened), path)
    return path

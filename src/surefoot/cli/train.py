"""``surefoot train``."""

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.options import RUNS, RunsDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot train recipes/stdlib-1m.toml --name first · "
    "surefoot train --name first --resume · "
    "torchrun --nproc-per-node 2 -m surefoot train recipes/stdlib-1m.toml --name two"
)


@app.command(epilog=_EXAMPLES)
def train(
    recipe: Annotated[
        Path | None, typer.Argument(metavar="RECIPE.toml", help="What to train.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run. Default: the recipe's.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run of that name.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="A.B=C", help="Override a recipe field; may be given several times."
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(
            "--init-from", metavar="DIR", help="Start from the weights of a transformers folder."
        ),
    ] = None,
    runs_dir: RunsDir = RUNS,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress lines.")] = False,
) -> int:
    """Pre-train a decoder from a recipe, or resume a run."""
    from surefoot.cli.training import Request, run

    return run(
        Request(
            recipe=recipe,
            name=name,
            resume=resume,
            settings=tuple(settings or ()),
            init_from=init_from,
            runs_dir=runs_dir,
            quiet=quiet,
        )
    )

"""``surefoot train``."""

from pathlib import Path

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot train recipes/stdlib-1m.toml --name first · "
    "surefoot train --name first --resume · "
    "torchrun --nproc-per-node 2 -m surefoot train recipes/stdlib-1m.toml --name two"
)


@app.command(epilog=_EXAMPLES)
def train(
    recipe: Path = typer.Argument(None, metavar="RECIPE.toml", help="What to train."),
    name: str = typer.Option(None, "--name", help="Name of the run. Default: the recipe's."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the run of that name."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="A.B=C", help="Override a recipe field; may be given several times."
    ),
    init_from: Path = typer.Option(
        None, "--init-from", metavar="DIR", help="Start from the weights of a transformers folder."
    ),
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Where runs are kept."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress lines."),
) -> int:
    """Pre-train a decoder from a recipe, or resume a run."""
    from surefoot.cli.training import Request, run

    return run(
        Request(
            recipe=recipe,
            name=name,
            resume=resume,
            settings=tuple(settings),
            init_from=init_from,
            runs_dir=runs_dir,
            quiet=quiet,
        )
    )

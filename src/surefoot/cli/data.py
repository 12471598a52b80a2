"""``surefoot data show RUN --step N``."""

from typing import Annotated

import typer

from surefoot.cli.options import RUNS, RunArgument, RunsDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback()
def data() -> None:
    """Look at what a run is fed."""


@app.command(epilog="Example: surefoot data show runs/first --step 12")
def show(
    run: RunArgument,
    step: Annotated[int, typer.Option("--step", min=1, help="The step whose batch to show.")],
    width: Annotated[
        int, typer.Option("--width", min=0, help="Characters of text shown; 0 = all.")
    ] = 0,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Print what a step fed the model: decoded text, file, document, offset."""
    from surefoot.cli.console import printable
    from surefoot.cli.paths import run_folder
    from surefoot.errors import require

    folder = run_folder(run, runs_dir)
    require("torch", "torch")
    from surefoot.train import shown_batch

    for item in shown_batch(folder, step):
        typer.echo(
            f"--- sample {item.position}, source {item.provenance.source}, "
            f"epoch {item.provenance.epoch}"
        )
        for part in item.provenance.documents:
            typer.echo(f"    {printable(str(part))}")
        text = item.text if not width or len(item.text) <= width else item.text[:width] + " …"
        for line in text.splitlines():
            typer.echo(printable(line))

"""``surefoot data show RUN --step N``."""

from pathlib import Path

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback()
def data() -> None:
    """Look at what a run is fed."""


@app.command(epilog="Example: surefoot data show runs/first --step 12")
def show(
    run: Path = typer.Argument(..., help="A run folder; a bare name is looked up in --runs-dir."),
    step: int = typer.Option(..., "--step", min=1, help="The step whose batch to show."),
    width: int = typer.Option(0, "--width", min=0, help="Characters of text shown; 0 = all."),
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Where runs are kept."),
) -> None:
    """Print what a step fed the model: decoded text, file, document, offset."""
    from surefoot.cli.paths import run_folder
    from surefoot.train import shown_batch

    for item in shown_batch(run_folder(run, runs_dir), step):
        typer.echo(
            f"--- sample {item.position}, source {item.provenance.source}, "
            f"epoch {item.provenance.epoch}"
        )
        for part in item.provenance.documents:
            typer.echo(f"    {part}")
        text = item.text if not width or len(item.text) <= width else item.text[:width] + " …"
        typer.echo(text)

"""``surefoot export RUN --to transformers --out DIR``."""

from pathlib import Path

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: surefoot export runs/first --to transformers --out first-hf")
def export(
    run: Path = typer.Argument(..., help="A run folder; a bare name is looked up in --runs-dir."),
    out: Path = typer.Option(..., "--out", help="Folder to write; must not exist."),
    to: str = typer.Option("transformers", "--to", help="Format: transformers."),
    step: int = typer.Option(None, "--step", help="Checkpoint. Default: the newest trusted one."),
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Where runs are kept."),
) -> None:
    """Write a run's model as a folder that AutoModelForCausalLM loads, with equal logits."""
    from surefoot.cli.paths import run_folder
    from surefoot.errors import UsageError

    if to != "transformers":
        raise UsageError(f"--to {to}: expected transformers")
    folder = run_folder(run, runs_dir)
    from surefoot.export import to_transformers
    from surefoot.train import load_model

    found = load_model(folder, step)
    to_transformers(found.model, found.tokenizer_path, out, end_of_text=found.end_of_text)
    typer.echo(f"{out}: the model of {folder.name} at step {found.step}")

"""``surefoot export RUN --to transformers --out DIR``."""

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.options import RUNS, RunArgument, RunsDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: surefoot export runs/first --to transformers --out first-hf")
def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write; must not exist.")],
    to: Annotated[str, typer.Option("--to", help="Format: transformers.")] = "transformers",
    step: Annotated[
        int | None, typer.Option("--step", help="Checkpoint. Default: the newest trusted one.")
    ] = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Write a run's model as a folder that AutoModelForCausalLM loads, with equal logits."""
    from surefoot.cli.paths import run_folder
    from surefoot.errors import UsageError, require

    if to != "transformers":
        raise UsageError(f"--to {to}: expected transformers")
    folder = run_folder(run, runs_dir)
    require("torch", "torch")
    from surefoot.export import to_transformers
    from surefoot.model import folded_names
    from surefoot.train import load_model

    found = load_model(folder, step)
    to_transformers(found.model, found.tokenizer_path, out, end_of_text=found.end_of_text)
    typer.echo(f"{out}: the model of {folder.name} at step {found.step}")
    folded = folded_names(found.model)
    if folded:
        typer.echo(f"  folded into the weights: {', '.join(folded)}")

"""Arguments that several subcommands share."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[
    Path, typer.Argument(help="A run folder; a bare name is looked up in --runs-dir.")
]
RunsDir = Annotated[Path, typer.Option("--runs-dir", help="Where runs are kept.")]

RUNS = Path("runs")
"""Default of RunsDir."""

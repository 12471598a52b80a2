"""``surefoot report RUN``."""

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.options import RUNS, RunArgument, RunsDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: surefoot report runs/first")
def report(
    run: RunArgument,
    format: Annotated[
        str, typer.Option("--format", help="text, json or html (prints only that).")
    ] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write the HTML. Default: in the run.")
    ] = None,
    runs_dir: RunsDir = RUNS,
) -> int:
    """Summarise a run and write its self-contained HTML report."""
    from surefoot import runs
    from surefoot.cli.console import print_json, show
    from surefoot.cli.paths import run_folder
    from surefoot.detect import diagnose
    from surefoot.errors import UsageError
    from surefoot.report import render_html, summary, to_json, write_html

    if format not in ("text", "json", "html"):
        raise UsageError(f"--format {format}: expected text, json or html")
    folder = run_folder(run, runs_dir)
    opened = runs.open(folder)
    findings = diagnose(opened)
    if format == "json":
        print_json(to_json("report", [str(folder)], findings))
    elif format == "html":
        typer.echo(render_html(opened, findings))
    else:
        path = out or folder / "report.html"
        write_html(opened, findings, path)
        show(summary(opened, findings))
        typer.echo(f"report: {path}")
    return 1 if any(finding.severity == "error" for finding in findings) else 0

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
    from surefoot.cli.console import print_json, results, show
    from surefoot.cli.paths import run_folder
    from surefoot.detect import diagnose
    from surefoot.errors import UsageError
    from surefoot.report import overview, render_html, summary, to_json, write_html

    if format not in ("text", "json", "html"):
        raise UsageError(f"--format {format}: expected text, json or html")
    folder = run_folder(run, runs_dir)
    path = out or folder / "report.html"
    if format == "text" and not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder {path.parent}")
    opened = runs.open(folder)
    findings = diagnose(opened)
    if format == "json":
        with results():
            print_json(to_json("report", [str(folder)], findings, summary=overview(opened)))
    elif format == "html":
        with results():
            typer.echo(render_html(opened, findings))
    else:
        # First what needs no room on the disk: that is full or read-only when runs are looked at.
        try:
            with results():
                show(summary(opened, findings))
        finally:  # the page is wanted too where the text cannot be shown
            write_html(opened, findings, path)
        with results():
            typer.echo(f"report: {path}")
    return 1 if any(finding.severity == "error" for finding in findings) else 0

"""``surefoot explain CODE``."""

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: surefoot explain SPK003")
def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="A finding's code or name.")
    ] = None,
) -> None:
    """Explain a finding's code; without one, list them all."""
    from surefoot.codes import CODES, explanation

    if code is None:
        for entry in CODES.values():
            typer.echo(f"{entry.code}  {entry.severity:<8} {entry.name:<18} {entry.title}")
        return
    typer.echo(explanation(code))

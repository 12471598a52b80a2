"""``surefoot explain WORD``."""

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot explain SPK003 · surefoot explain optimizer.shallow_gradient · "
    "surefoot explain adam_rms"
)


@app.command(epilog=_EXAMPLES)
def explain(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A finding's code or name, a field of a recipe, or a signal.",
        ),
    ] = None,
) -> None:
    """Explain a finding's code, a recipe's field or a signal; without one, list the codes."""
    from surefoot.codes import CODES, explanation, lookup
    from surefoot.errors import UsageError
    from surefoot.records import CATALOGUE

    if word is None:
        for entry in CODES.values():
            typer.echo(f"{entry.code}  {entry.severity:<8} {entry.name:<18} {entry.title}")
        return
    try:
        lookup(word)
    except UsageError as error:
        signal = CATALOGUE.get(word)
        if signal is not None:
            source = f"\n\nSource: {signal.source}" if signal.source else ""
            typer.echo(f"{signal.name} [{signal.unit}]\n\n{signal.definition}{source}")
            return
        from surefoot.recipe.fields import field_text, similar_field

        text = field_text(word)
        if text is None:
            raise UsageError(f"{error}{similar_field(word)}") from None
        typer.echo(text)
        return
    typer.echo(explanation(word))

"""The command group: subcommands are loaded by name, so that ``--help`` costs next to nothing."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Name -> (module, one line). A subcommand's module imports typer and the standard library only;
# what the command needs is imported inside its function.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("surefoot.cli.train", "Pre-train a decoder from a recipe, or resume a run."),
    "diagnose": ("surefoot.cli.diagnose", "Read anybody's log and find what went wrong in it."),
    "check": (
        "surefoot.cli.check",
        "Read configuration files, or --init: look at a model before step 1.",
    ),
    "report": ("surefoot.cli.report", "Summarise a run and write its HTML report."),
    "export": ("surefoot.cli.export", "Write a run's model as a transformers folder."),
    "data": ("surefoot.cli.data", "Look at what a run is fed."),
    "explain": ("surefoot.cli.explain", "Explain a code, a recipe field or a signal, e.g. SPK003."),
}


class LazyGroup(TyperGroup):
    """A command group that imports a subcommand only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the subcommand; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As the base class, but an unknown name brings the nearest known one."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from surefoot.errors import UsageError, nearest

            hint = nearest(args[0], list(COMMANDS)) or f"; known: {', '.join(COMMANDS)}"
            raise UsageError(f"unknown command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the table's lines without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Keeps language-model pre-training runs on their feet.",
    epilog="Start with: surefoot diagnose train.log, or surefoot train recipes/stdlib-1m.toml",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from surefoot import __version__

        typer.echo(f"surefoot {__version__}")
        raise typer.Exit


@app.callback()
def surefoot(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Keeps language-model pre-training runs on their feet."""

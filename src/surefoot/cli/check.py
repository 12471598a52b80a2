"""``surefoot check PATH…`` and ``surefoot check --init TARGET``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot check args.txt · surefoot check model/config.json train_args.json "
    "ds_config.json · surefoot check launch.sh --format json · surefoot check --init "
    "recipes/stdlib-1m.toml · surefoot check --init model/config.json --out start.html"
)


@app.command(epilog=_EXAMPLES)
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...",
            help="Configuration files of one run, of any known trainer, or a folder of them.",
            show_default=False,
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            "--init",
            metavar="TARGET",
            help="Instead of PATHs, a recipe or a transformers config.json: build the model with "
            "random weights and say whether it will start well.",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option("--format", help="text or json, with --init also html (prints only that)."),
    ] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", help="With --init, write an HTML page to this file.")
    ] = None,
    sequence_length: Annotated[
        int | None,
        typer.Option(
            "--sequence-length",
            help="With --init, tokens of a sequence. Default: the recipe's, or of a config.json up "
            "to 2048.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.KEY=VALUE", help="With --init, override a recipe's field."
        ),
    ] = None,
) -> int:
    """Read configuration files as one, or look at a model before its first step.

    Of files, say where they contradict or were not understood. Of a model (--init), say whether its
    random weights let gradients, attention and the first loss start well.
    """
    from surefoot.errors import UsageError

    if init is not None:
        from surefoot.cli.checking_init import Asked, run

        if paths:
            raise UsageError(f"--init {init} takes no PATH beside it (got {paths[0]})")
        return run(
            Asked(
                target=init,
                settings=tuple(set_ or ()),
                sequence_length=sequence_length,
                format=format,
                out=out,
            )
        )
    for name, given in (("--out", out), ("--sequence-length", sequence_length), ("--set", set_)):
        if given:
            raise UsageError(f"{name} goes with --init TARGET")
    if not paths:
        raise UsageError("expected a PATH to check, or --init TARGET")
    return _files(paths, format)


def _files(paths: list[Path], format: str) -> int:
    from surefoot.cli.console import print_json, results, show
    from surefoot.errors import ConfigError, UsageError, nearest
    from surefoot.readers import read_configs
    from surefoot.report import asked, asked_json, to_json

    if format not in ("text", "json"):
        raise UsageError(f"--format {format}: expected text or json")
    for path in paths:
        if not path.exists():
            inside = path.parent.iterdir() if path.parent.is_dir() else ()
            hint = nearest(path.name, [item.name for item in inside])
            raise ConfigError(f"there is no file {path}{hint}")
    configs = read_configs(*paths)
    with results():
        if format == "json":
            inputs = [str(path) for path in paths]
            print_json(to_json("check", inputs, configs.findings, summary=asked_json(configs)))
        else:
            show(asked(configs))
    return 1 if any(finding.severity == "error" for finding in configs.findings) else 0

"""``surefoot check PATH…``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot check args.txt · surefoot check model/config.json train_args.json "
    "ds_config.json · surefoot check launch.sh --format json"
)


@app.command(epilog=_EXAMPLES)
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Configuration files of one run, of any known trainer, or a folder of them.",
        ),
    ],
    format: Annotated[
        str, typer.Option("--format", help="text or json (prints only that).")
    ] = "text",
) -> int:
    """Read configuration files as one, and say where they contradict or were not understood."""
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

"""``surefoot diagnose PATH…``."""

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.options import RUNS, RunsDir

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = (
    "Examples: surefoot diagnose train.log · surefoot diagnose slurm-*.out.gz --format html --out "
    "report.html · surefoot diagnose metrics.csv --map loss=train/ce --map step=iter · "
    "tail -n +1 -f train.log | surefoot diagnose - · Exit status: 1 if a finding is an error, "
    "2 if nothing could be read, else 0."
)


@app.command(epilog=_EXAMPLES)
def diagnose(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Logs of one run (compressed ones too), a folder of it, a run folder, "
            "or - for standard input.",
        ),
    ],
    format: Annotated[
        str, typer.Option("--format", help="text, json or html (prints only that).")
    ] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the HTML report there, too.")
    ] = None,
    format_in: Annotated[
        str | None,
        typer.Option("--format-in", metavar="NAME", help="Read it as this log format."),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="SIGNAL=KEY", help="What a signal is called in the log."),
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", help="Number of tokens, for a loss near ln V.")
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            "--false-alarms-per-10k",
            metavar="RATE",
            help="False incidents that may come on 10 000 healthy records (default 0.5).",
        ),
    ] = None,
    runs_dir: RunsDir = RUNS,
) -> int:
    """Read anybody's log, say what was read, and find spikes, divergence and NaN in it."""
    from surefoot.cli.diagnosing import Asked, run

    return run(
        Asked(
            paths=tuple(map(Path, paths)) if all(paths) else (),
            format=format,
            out=out,
            format_in=format_in,
            mapping=tuple(mapping or ()),
            vocab_size=vocab_size,
            false_alarms_per_10k=false_alarms,
            runs_dir=runs_dir,
        )
    )

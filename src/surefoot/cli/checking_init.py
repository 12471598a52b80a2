"""What ``surefoot check --init`` does: build, measure, tell."""

import os
from dataclasses import dataclass
from pathlib import Path

from surefoot.cli.console import print_json, results, say, show
from surefoot.errors import UsageError, require


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    target: Path
    settings: tuple[str, ...] = ()
    sequence_length: int | None = None
    format: str = "text"
    out: Path | None = None


def run(asked: Asked) -> int:
    """Carry it out; the exit status.

    Raises:
        UsageError: arguments that cannot be meant.
    """
    if asked.format not in ("text", "json", "html"):
        raise UsageError(f"--format {asked.format}: expected text, json or html")
    if asked.out is not None and asked.out.is_dir():
        raise UsageError(f"--out {asked.out}: is a folder; name a file in it")
    if asked.out is not None and not asked.out.parent.is_dir():
        raise UsageError(f"--out {asked.out}: there is no folder {asked.out.parent}")
    # On a busy machine threads that spin while they wait cost three times what they compute.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    require("torch", "torch")
    from surefoot.probe import not_checked, profile_start, verdicts
    from surefoot.report import (
        init_json,
        init_summary,
        render_init_html,
        to_json,
        write_init_html,
    )

    profile = profile_start(
        asked.target, asked.settings, sequence_length=asked.sequence_length, say=say
    )
    findings, unchecked = verdicts(profile), not_checked(profile)
    with results():
        if asked.format == "json":
            inputs = [str(asked.target)]
            print_json(to_json("check", inputs, findings, unchecked, init_json(profile)))
        elif asked.format == "html" and asked.out is None:
            import typer

            typer.echo(render_init_html(profile, findings, unchecked))
        elif asked.format == "text":
            show(init_summary(profile, findings, unchecked))
    if asked.out is not None:
        write_init_html(profile, findings, asked.out, unchecked)
        say(f"report: {asked.out}")
    return 1 if any(finding.severity == "error" for finding in findings) else 0

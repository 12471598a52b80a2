"""What ``surefoot diagnose`` does: read, detect, tell."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surefoot.cli.console import print_json, results, say, show
from surefoot.errors import LogError, UsageError, nearest
from surefoot.records import CATALOGUE, READ, Finding, Run

LARGE = 200 << 20
"""Bytes of a file from which on its reading is announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    paths: tuple[Path, ...]
    format: str = "text"
    out: Path | None = None
    format_in: str | None = None
    mapping: tuple[str, ...] = ()
    vocab_size: int | None = None
    false_alarms_per_10k: float | None = None
    runs_dir: Path = Path("runs")


def run(asked: Asked) -> int:
    """Carry it out; the exit status."""
    from surefoot.detect import FALSE_ALARMS_PER_10K, diagnose
    from surefoot.readers import read_run

    if not asked.paths:
        raise UsageError("expected a log, got an empty path (an unset variable?)")
    if asked.format not in ("text", "json", "html"):
        raise UsageError(f"--format {asked.format}: expected text, json or html")
    if asked.vocab_size is not None and asked.vocab_size < 2:
        raise UsageError(f"--vocab-size {asked.vocab_size}: expected 2 or more")
    if asked.out is not None and asked.out.is_dir():
        raise UsageError(f"--out {asked.out}: is a folder; name a file in it")
    if asked.out is not None and not asked.out.parent.is_dir():
        raise UsageError(f"--out {asked.out}: there is no folder {asked.out.parent}")
    rate = asked.false_alarms_per_10k
    rate = FALSE_ALARMS_PER_10K if rate is None else rate
    if not 0.01 <= rate <= 100.0:
        raise UsageError(f"--false-alarms-per-10k {rate:g}: expected 0.01 to 100")
    mapping = mapped(asked.mapping)
    if [str(path) for path in asked.paths] == ["-"]:
        from surefoot.cli.following import follow

        read, findings = follow(
            format_in=asked.format_in,
            mapping=mapping,
            vocab_size=asked.vocab_size,
            false_alarms_per_10k=rate,
            tell=asked.format == "text",
        )
    else:
        paths = [found(path, asked.runs_dir) for path in asked.paths]
        for path in paths:
            if path.is_file() and path.stat().st_size > LARGE:
                say(f"reading {path} ({path.stat().st_size / 1e9:.1f} GB)")
        read = read_run(*paths, format_in=asked.format_in, mapping=mapping)
        findings = diagnose(read, vocab_size=asked.vocab_size, false_alarms_per_10k=rate)
    tell(read, findings, asked)
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def tell(read: Run, findings: Iterable[Finding], asked: Asked) -> None:
    """Print what was read and found, in the format asked for."""
    from surefoot.detect import not_checked
    from surefoot.report import overview, render_html, summary, to_json, write_html

    unchecked = not_checked(read)

    if asked.format == "json":
        inputs = [str(path) for path in asked.paths]
        with results():
            document = to_json("diagnose", inputs, findings, unchecked, overview(read))
            print_json(document)
    elif asked.format == "html" and asked.out is None:
        import typer

        with results():
            typer.echo(render_html(read, findings))
    elif asked.format == "text":
        with results():
            show(summary(read, findings, unchecked))
    if asked.out is not None:
        write_html(read, findings, asked.out)
        say(f"report: {asked.out}")


def mapped(texts: Iterable[str]) -> dict[str, str]:
    """``["loss=train/ce"]`` -> ``{"loss": "train/ce"}``.

    Raises:
        UsageError: if one is not of that form, or names no signal: nothing would be judged by it.
    """
    known = ["step", *CATALOGUE, *READ]
    mapping: dict[str, str] = {}
    for text in texts:
        signal, equals, key = text.partition("=")
        if not equals or not signal.strip() or not key.strip():
            raise UsageError(f"--map {text}: expected SIGNAL=KEY, such as loss=train/ce")
        if signal.strip() not in known:
            hint = nearest(signal.strip(), known)
            raise UsageError(f"--map {text}: no signal {signal.strip()!r}{hint}")
        mapping[signal.strip()] = key.strip()
    return mapping


def found(path: Path, runs_dir: Path) -> Path:
    """The path, or the run of that name.

    Raises:
        LogError: naming the nearest file there is.
    """
    if str(path) == "-":
        raise LogError("standard input (-) cannot be read together with files")
    if path.exists():
        return path
    if (runs_dir / path / "spec.toml").is_file():
        return runs_dir / path
    folder = path.parent
    try:
        near = [item.name for item in folder.iterdir()]
    except OSError:
        raise LogError(f"there is no file {path}: there is no folder {folder}") from None
    raise LogError(f"there is no file {path}{nearest(path.name, near)}")

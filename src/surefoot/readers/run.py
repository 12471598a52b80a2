"""Reading a run, whoever trained it: a log, several of one run, a folder, surefoot's own folder."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from surefoot import runs
from surefoot.errors import ConfigError, LogError, nearest
from surefoot.readers import columnar
from surefoot.readers.assemble import assemble
from surefoot.readers.configs import Configs, configs_in_log, read_configs
from surefoot.readers.formats import LineFormat, LogFormat
from surefoot.readers.gather import Gathered, gather
from surefoot.readers.logs import formats
from surefoot.readers.names import Names
from surefoot.readers.points import Item
from surefoot.readers.recognise import Guess, guesses_of
from surefoot.readers.several import Read
from surefoot.readers.text import Line, Source, lines
from surefoot.readers.unknown import no_metrics
from surefoot.records import Run


def read_run(
    *paths: Path | str,
    format_in: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Run:
    """Read what a run left behind, of any trainer.

    ::

        run = read_run("train.log")
        run.signals            # polars frame: step, attempt, loss, grad_norm, ...
        run.reading["format"]  # which format, how sure

    Args:
        paths: files of one run (compressed ones too), or a folder of one; a surefoot run folder.
        format_in: name of the format, in place of recognition.
        mapping: signal -> key as the trainer wrote it, e.g. ``{"loss": "train/ce"}``; the key
            ``step`` says which column is the step.

    Raises:
        LogError: if a file cannot be read, is of no known format, or holds no metrics.
        UsageError: if ``format_in`` is no known format; the nearest is named.
    """
    if not paths:
        raise LogError("expected a log file or a folder of one")
    first = Path(paths[0])
    if len(paths) == 1 and first.is_dir() and (first / "spec.toml").is_file():
        return runs.open(first)
    forced = formats().lookup(format_in) if format_in is not None else None
    named = [Path(path) for path in paths]
    files = [file for path in named for file in files_of(path)]
    read: list[Read] = []
    configs: list[Path] = []
    problems: list[str] = []
    failure: LogError | None = None
    for file in files:
        try:
            read.append((file, *read_file(file, forced, mapping)))
        except LogError as error:
            failure = failure or error
            if _is_configuration(file):
                configs.append(file)
            elif file in named or not os.access(file, os.R_OK):
                problems.append(str(error))
    if not read:
        if failure is not None and len(files) == 1:
            raise _with_hint(failure, configs)
        raise LogError(problems[0] if problems else f"no file in {paths[0]} holds metrics")
    if mapping:
        _found(mapping, read)
    return assemble([str(path) for path in paths], read, problems, asked(read, configs))


def _found(mapping: Mapping[str, str], read: Sequence[Read]) -> None:
    """Refuse a key that no file has: what the user meant would silently be lost.

    Raises:
        LogError: naming the nearest key and those there are.
    """
    keys = [name.key for _, gathered, _ in read for name in gathered.names.values()]
    counted = any("steps_are" in gathered.facts for _, gathered, _ in read)
    for signal, key in mapping.items():
        if key in keys if signal != "step" else not counted:
            continue
        there = ", ".join(repr(key) for key in keys[:12]) + (", ..." if len(keys) > 12 else "")
        raise LogError(f"--map {signal}={key}: no key {key!r}{nearest(key, keys)}; keys: {there}")


def _with_hint(failure: LogError, configs: Sequence[Path]) -> LogError:
    """The failure of one file, or if that is a configuration what to type for that."""
    if not configs or read_configs(configs[0]).files[0].kind == "dump":
        return failure  # a log may hold arguments and yet be one
    path = configs[0]
    return LogError(f"{path.name} is a configuration, not a log: type  surefoot check {path}")


def asked(read: Sequence[Read], configs: Sequence[Path]) -> Configs | None:
    """What was asked of a run: of files beside its logs, or of the argument dump in one."""
    try:
        return read_configs(*configs) if configs else configs_in_log(read[0][0])
    except ConfigError:
        return None


def _is_configuration(path: Path) -> bool:
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            return False
        # Prose that shows a command is no configuration of the run beside it.
        return any(
            file.sure >= SURE_CONFIG and (file.kind != "arguments" or _lists_flags(path))
            for file in read_configs(path).files
        )
    except (ConfigError, OSError):
        return False


def _lists_flags(path: Path) -> bool:
    """Whether a text is a script, or a list of flags a line, and not a page that names some."""
    with Source(path) as source:
        text = source.head.decode("utf-8", "replace")
    return text.startswith("#!") or sum(line.lstrip()[:1] == "-" for line in text.split("\n")) > 1


def files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder that may be logs, by name."""
    if not path.is_dir():
        return [path]
    found = [p for p in sorted(path.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    return found[:MOST_FILES]


MOST_FILES = 2000
"""Files of a folder that are looked at."""
LARGEST_CONFIG = 1 << 20
"""Bytes of a file beside the logs that may be a configuration."""
SURE_CONFIG = 0.6
"""Sureness from which on a file beside the logs is taken for a configuration."""


def read_file(
    path: Path | str, forced: LogFormat | None, mapping: Mapping[str, str] | None
) -> tuple[Gathered, list[Guess]]:
    """One file, and the guesses by which its format was chosen (none if it was forced)."""
    guesses: list[Guess] = []
    if forced is None:
        guesses = guesses_of(path, mapping)
        if not guesses:
            with Source(path) as source:
                raise no_metrics(source)
    fmt = forced or guesses[0].format
    with Source(path, keys=mapping) as source:
        gathered = gather(items(source, fmt), names_of(fmt, mapping))
        if source.damage:
            gathered.problems.append(f"{source.name}: {source.damage}")
    if not len(gathered.frame) or gathered.frame.width <= 2:
        raise LogError(f"{Path(path).name} holds no metrics: read as {fmt.title}, no step has one")
    return gathered, guesses or [Guess(fmt, 1.0)]


def names_of(fmt: LogFormat, mapping: Mapping[str, str] | None) -> Names:
    """The names of a file's keys; which of them is the step is the reader's to know."""
    said = {signal: key for signal, key in (mapping or {}).items() if signal != "step"}
    return Names(fmt.names, said, fmt.log_base)


def items(source: Source, fmt: LogFormat) -> Iterator[Item]:
    """The points and notes of a file that is of the format ``fmt``."""
    if not isinstance(fmt, LineFormat):
        yield from fmt.read(source)
        return
    if columnar.usable(fmt, source):
        yield from columnar.items(fmt, source)
        return
    yield from parsed(fmt, lines(source), source.keys.get("step"))


def parsed(fmt: LineFormat, told: Iterable[Line], step_key: str | None) -> Iterator[Item]:
    """The points and notes of some lines, by a parser of their own."""
    parser, wanted = fmt.parser(), fmt.wanted()
    parser.step_key = step_key
    for line in told:
        if wanted(line.text):
            yield from parser.feed(line)
    yield from parser.finish()

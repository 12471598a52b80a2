"""What configuration files say together, in words: fields and their sources, what is open."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.records import Source, TrainSpec, to_json
from surefoot.report.text import by_weight, count, heading, plain, tally

if TYPE_CHECKING:
    from surefoot.readers import Configs


def asked(configs: "Configs") -> RenderableType:
    """A rich renderable: what was read, each field and its source, findings, what is open."""
    findings = by_weight(configs.findings)
    blocks: list[RenderableType] = [*_files(configs), "", _fields(configs.spec)]
    for title, notes in (("left open", configs.unresolved), ("to know", configs.remarks)):
        if notes:
            blocks += ["", Text(title, style="bold")]
            blocks += [Text(f"  {note_text(note)}") for note in notes]
    told = f"findings: {tally(findings)}" if findings else "no findings"
    blocks += ["", Text(told, style="bold")]
    for finding in findings:
        blocks.append(Text(f"  {heading(finding)}"))
        blocks.append(Text(f"    {plain(finding.message)}"))
        blocks += [Text(f"    {i}. {plain(a)}") for i, a in enumerate(finding.actions, 1)]
    return Group(*blocks)


def asked_json(configs: "Configs") -> dict[str, Any]:
    """The ``summary`` of ``surefoot check --format json``.

    Returns:
        ``files`` (path, format, sure), ``trainer``, ``fields`` (dotted path -> value, file, line,
        key, assumed), ``not_understood``, ``unresolved`` and ``remarks``.
    """
    spec = configs.spec
    return {
        "files": [to_json(file) for file in configs.files],
        "trainer": spec.trainer,
        "fields": {
            path: {"value": value, **_source_json(spec.sources.get(path))}
            for path, value in stated(spec).items()
        },
        "not_understood": [to_json(note) for note in configs.not_understood],
        "unresolved": [to_json(note) for note in configs.unresolved],
        "remarks": [to_json(note) for note in configs.remarks],
    }


def stated(spec: TrainSpec) -> Mapping[str, Any]:
    """Every stated field, those of the environment too, by dotted path."""
    return {**spec.stated(), **{f"environment.{k}": v for k, v in spec.environment.items()}}


def note_text(note: Any) -> str:
    """``ds_config.json:3 train_batch_size: auto``."""
    where = plain(note.file) + (f":{note.line}" if note.line else "")
    return f"{where} {plain(note.key)}: {plain(note.text)}"


def source_text(source: Source | None) -> str:
    """Where a value was said, or whose default it is."""
    if source is None:
        return ""
    if source.kind == "default":
        return f"assumed: default of {plain(source.assumed or 'the trainer')}"
    parts = [plain(Path(source.file).name)] if source.file else []
    if source.line:
        parts = [f"{parts[0] if parts else 'line '}:{source.line}"]
    if source.flag:
        parts.append(plain(source.flag))
    return ("follows from " if source.kind == "derived" else "") + " ".join(parts)


def _files(configs: "Configs") -> Iterator[RenderableType]:
    for file in configs.files:
        yield Text(f"{plain(file.path)}: {plain(file.title)} ({file.kind}, sure {file.sure:.2f})")


def _fields(spec: TrainSpec) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column(style="dim")
    for path, value in _by_section(stated(spec).items()):
        source = spec.sources.get(path)
        assumed = source is not None and source.kind == "default"
        shown = Text(_value(value), style="dim" if assumed else "")
        table.add_row(Text(path), shown, Text(source_text(source)))
    return table


def _by_section(items: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(items, key=lambda item: ("." in item[0], item[0].partition(".")[0]))


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list | tuple):
        more = f", ... ({count(len(value), 'item')})" if len(value) > 4 else ""
        return ", ".join(plain(item) for item in value[:4]) + more
    return plain(value)


def _source_json(source: Source | None) -> dict[str, Any]:
    if source is None:
        return {}
    return {key: value for key, value in to_json(source).items() if value is not None}

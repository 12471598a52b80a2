"""Configuration files to one TrainSpec, with everything that was found on the way."""

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from surefoot.errors import ConfigError, UsageError
from surefoot.readers.configs.derive import derive
from surefoot.readers.configs.documents import Document, dumps, load
from surefoot.readers.configs.fields import TOP
from surefoot.readers.configs.formats import ConfigFormat, Draft, Noted, Statement
from surefoot.readers.configs.merge import fill, merge
from surefoot.readers.configs.trainers import formats
from surefoot.readers.text.opening import Source as ByteSource
from surefoot.recipe.words import count, printable, short
from surefoot.records import SEVERITIES, Finding, Place, Source, TrainSpec

SURE_ENOUGH = 0.35
"""Score below which a document is not taken for a configuration."""
LOG_HEAD = 2 << 20
"""Bytes of a log in which its arguments are looked for."""
_MOST_COMPARED = 60
_LARGEST_IN_FOLDER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A file, or a part of one, that was read.

    Attributes:
        path: as it was given.
        format: name of the format.
        title: of the format, for people.
        sure: 0 to 1.
        kind: ``json``, ``yaml``, ``toml``, ``python``, ``arguments``, ``dump``.
    """

    path: str
    format: str
    title: str
    sure: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """What several configuration files say together.

    Attributes:
        spec: the normal form; every field knows its source.
        findings: contradictions (``CFG001``) and keys not understood (``CFG002``).
        not_understood: keys that the trainer does not have, as far as is known.
        unresolved: keys whose value a shell variable, code or ``auto`` left open.
        remarks: other things worth knowing about a key, e.g. a number that is read as text.
        files: what was read, and as what.
    """

    spec: TrainSpec
    findings: tuple[Finding, ...] = ()
    not_understood: tuple[Noted, ...] = ()
    unresolved: tuple[Noted, ...] = ()
    remarks: tuple[Noted, ...] = ()
    files: tuple[ConfigFile, ...] = ()


def read_spec(*paths: str | Path) -> TrainSpec:
    """The normal form of configuration files that belong together; see :func:`read_configs`."""
    return read_configs(*paths).spec


def read_configs(*paths: str | Path) -> Configs:
    """Read the configuration files of one run. Nothing in them is executed or unpickled.

    Args:
        paths: files of any known trainer, told by their contents: JSON, YAML, TOML, Python
            settings, argument lists, launch scripts, launch logs. Of a folder, the files in it
            that are recognised.

    Raises:
        ConfigError: a file that cannot be read or is no configuration, in one line.
        UsageError: no path.
    """
    if not paths:
        raise UsageError("read_configs needs at least one file")
    drafts: list[Draft] = []
    files: list[ConfigFile] = []
    for path in map(Path, paths):
        found = list(_of_folder(path) if path.is_dir() else _of_file(path))
        for sure, draft in found:
            drafts.append(draft)
            form = draft.form
            files.append(
                ConfigFile(path=draft.document.path, format=form.name, title=form.title,
                           sure=round(sure, 3), kind=draft.document.kind)
            )  # fmt: skip
    return _together(drafts, files)


def configs_in_log(path: str | Path) -> Configs | None:
    """The arguments that a trainer wrote at the beginning of its log; None if there are none.

    Raises:
        LogError: the file cannot be read.
    """
    taken = bytearray()
    with ByteSource(path) as source:
        for chunk in source.chunks():
            taken += chunk
            if len(taken) >= LOG_HEAD:
                break
    text = taken[:LOG_HEAD].decode("utf-8", errors="replace").replace("\r\n", "\n")
    drafts: list[Draft] = []
    files: list[ConfigFile] = []
    for document in dumps.documents(str(path), text) if dumps.has_block(text) else ():
        best = recognise([document])
        if best is None or best[0] < SURE_ENOUGH:
            continue
        drafts.append(best[1].read(best[2]))
        files.append(
            ConfigFile(path=str(path), format=best[1].name, title=best[1].title,
                       sure=round(best[0], 3), kind=document.kind)
        )  # fmt: skip
    return _together(drafts, files) if drafts else None


def _together(drafts: list[Draft], files: list[ConfigFile]) -> Configs:
    stated, findings = merge(drafts)
    fill(drafts, stated)
    derive(stated)
    unresolved = [note for draft in drafts for note in draft.unresolved]
    for draft in drafts:
        unresolved += [note for field, note in draft.left_open if field not in stated]
        unresolved += [
            Noted(key=text, file=draft.document.path, line=line, text="may hold further flags")
            for line, text in draft.document.loose
        ]
    strange = [note for draft in drafts for note in _strange(draft)]
    findings += _not_understood(strange)
    return Configs(
        spec=_spec(drafts, stated),
        findings=tuple(sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))),
        not_understood=tuple(strange),
        unresolved=tuple(unresolved),
        remarks=tuple(note for draft in drafts for note in (*draft.remarks, *_lost(draft))),
        files=tuple(files),
    )


def _lost(draft: Draft) -> Iterator[Noted]:
    for leaf in draft.document.lost:
        text = "stands behind the end of the command: the shell does not pass it on"
        yield Noted(key=leaf.key, file=draft.document.path, line=leaf.line, text=text)


# ------------------------------------------------------------------------------- recognition


def recognise(part: Sequence[Document]) -> tuple[float, ConfigFormat, Document] | None:
    """The likeliest format among the readings of a part, and how sure that is."""
    best: tuple[float, int, ConfigFormat, Document] | None = None
    for document in part:
        for form in formats().values():
            score = form.score(document)
            known = len(document.leaves)
            if score > 0 and (best is None or (score, known) > best[:2]):
                best = (score, known, form, document)
    return (best[0], best[2], best[3]) if best is not None else None


def _of_file(path: Path) -> Iterator[tuple[float, Draft]]:
    parts, problem = load(path)
    likeliest: tuple[float, ConfigFormat, Document] | None = None
    found = 0
    for part in parts:
        best = recognise(part)
        if best is not None and best[0] >= SURE_ENOUGH:
            found += 1
            inner = list(_nested(best[1], best[2]))
            yield best[0], best[1].read(best[2])
            for other in inner:
                inside = recognise([other])
                if inside is not None and inside[0] >= SURE_ENOUGH:
                    yield inside[0], inside[1].read(inside[2])
        elif best is not None and (likeliest is None or best[0] > likeliest[0]):
            likeliest = best
    if not found:
        raise ConfigError(_unknown(path, parts, problem, likeliest))


def _nested(form: ConfigFormat, document: Document) -> Iterator[Document]:
    """Take another program's configuration out of a document that holds it as a table."""
    for name in form.nested:
        inside = [key for key in document.leaves if key.startswith(f"{name}.")]
        if inside:
            leaves = {}
            for key in inside:
                leaf = document.leaves.pop(key)
                inner = key.removeprefix(f"{name}.")
                leaves[inner] = replace(leaf, key=inner)
            yield Document(document.path, document.kind, leaves)


def _unknown(
    path: Path,
    parts: Sequence[Sequence[Document]],
    problem: str | None,
    likeliest: tuple[float, ConfigFormat, Document] | None,
) -> str:
    shown = printable(path)
    documents = [document for part in parts for document in part]
    if not documents:
        return problem or (
            f"{shown}: no configuration: neither JSON, TOML, YAML or Python settings, nor flags of "
            "a command line, nor a log with a block of arguments"
        )
    if likeliest is None:
        keys = list(documents[0].leaves)
        names = ", ".join(short(key) for key in keys[:4])
        known = ", ".join(form.title for form in formats().values())
        return f"{shown}: no trainer that is known has its keys ({names}...); known: {known}"
    _, form, document = likeliest
    spelled = {form.spell(key): key for key in document.leaves}
    strange = [key for name, key in spelled.items() if not form.knows(name)]
    known_keys = len(spelled) - len(strange)
    if not strange:
        return (
            f"{shown}: not recognised; {form.title} knows its {count(len(spelled), 'key')}, but "
            "none of them says how a model is trained"
        )
    return (
        f"{shown}: not recognised; it is nearest to {form.title}, which knows {known_keys} of its "
        f"{count(len(spelled), 'key')}, but not {', '.join(map(short, strange[:4]))}"
    )


def _of_folder(folder: Path) -> Iterator[tuple[float, Draft]]:
    found = 0
    try:
        inside = sorted(item for item in folder.iterdir() if item.is_file())
    except OSError as error:
        raise ConfigError(f"{printable(folder)}: {error.strerror}") from None
    for item in inside:
        try:
            if item.stat().st_size > _LARGEST_IN_FOLDER:
                continue
            for sure, draft in _of_file(item):
                found += 1
                yield sure, draft
        except (ConfigError, OSError):
            continue  # tokenizers, weights and data lie beside configurations
    if not found:
        raise ConfigError(f"{printable(folder)}: no file in it is a configuration that is known")


# ------------------------------------------------------------------------- what was not known


def _strange(draft: Draft) -> list[Noted]:
    known = draft.form.names()
    found = []
    for place, (key, leaf) in enumerate(draft.strange()):
        near: list[str] = []
        if place < _MOST_COMPARED and len(key) < 80:
            near = get_close_matches(key, known, n=1, cutoff=0.86)
        found.append(
            Noted(
                key=leaf.key,
                file=draft.document.path,
                line=leaf.line,
                text=f"{draft.form.title} has no such key, as far as is known",
                nearest=near[0] if near else None,
            )
        )
    return found


def _not_understood(notes: Sequence[Noted]) -> list[Finding]:
    """A warning for each key that looks like a typo, one remark a file for the others."""
    found = []
    others: dict[str, list[Noted]] = {}
    for note in notes:
        if note.nearest is None:
            others.setdefault(note.file, []).append(note)
            continue
        place = f"{printable(note.file)}:{note.line}" if note.line else printable(note.file)
        found.append(
            Finding(
                code="CFG002",
                name="key-not-understood",
                severity="warning",
                place=Place(field=note.key, file=note.file, line=note.line),
                evidence={"key": note.key, "nearest": note.nearest},
                message=f"{place}: the key {note.key!r} is not known; {note.nearest!r} is",
                actions=(f"write {note.nearest} if that was meant",),
            )
        )
    for file, some in others.items():
        keys = [note.key for note in some]
        names = ", ".join(short(key) for key in keys[:6]) + (", ..." if len(keys) > 6 else "")
        found.append(
            Finding(
                code="CFG002",
                name="key-not-understood",
                severity="info",
                place=Place(file=file, line=some[0].line),
                evidence={"keys": keys},
                message=f"{printable(file)}: {count(len(keys), 'key')} not understood: {names}",
                actions=("check their spelling; nothing was concluded from them",),
            )
        )
    return found


# ----------------------------------------------------------------------------------- the spec


def _spec(drafts: Sequence[Draft], stated: Mapping[str, Statement]) -> TrainSpec:
    sections: dict[str, dict[str, Any]] = {}
    environment: dict[str, Any] = {}
    top: dict[str, Any] = {}
    for field, statement in stated.items():
        section, _, name = field.partition(".")
        if field in TOP:
            top[field] = statement.value
        elif section == "environment":
            environment[name] = statement.value
        else:
            sections.setdefault(section, {})[name] = statement.value
    hints: dict[str, Any] = typing.get_type_hints(TrainSpec)
    built: dict[str, Any] = {
        section: hints[section](**values) for section, values in sections.items()
    }
    sources = {field: _source(statement) for field, statement in stated.items()}
    options: dict[str, dict[str, Any]] = {}
    for draft in drafts:
        held = options.setdefault(draft.form.name, {})
        for _, leaf in draft.left():
            if leaf.value is not None:
                held.setdefault(leaf.key, leaf.value)
    if drafts:
        main = max(drafts, key=lambda draft: draft.form.rank)
        if "trainer" not in top:
            names = [d.form.trainer(d) for d in drafts if d.form is main.form]
            # A member of the family, or the use of a library, says more than its title.
            special = [name for name in names if name != main.form.title]
            top["trainer"] = [*special, *names][0]
            sources["trainer"] = Source(
                kind="derived", file=main.document.path, flag="told by its keys"
            )
    return TrainSpec(
        **top,
        **built,
        environment=environment,
        options={name: held for name, held in options.items() if held},
        sources=sources,
    )


def _source(statement: Statement) -> Source:
    return Source(
        kind=statement.kind,
        file=statement.path,
        line=statement.line,
        flag=statement.key,
        assumed=statement.assumed,
    )

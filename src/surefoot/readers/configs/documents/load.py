"""A file to documents: what languages its text can be read in; pickles and binaries are refused."""

import re
from collections.abc import Callable
from pathlib import Path

from surefoot.errors import ConfigError, LogError
from surefoot.readers.configs.documents import (
    commands,
    dumps,
    jsons,
    marks,
    python,
    shell,
    tomls,
    yamls,
)
from surefoot.readers.configs.documents.tree import Document, Leaf, Node, TooDeep, flatten
from surefoot.recipe.words import printable

LARGEST = 64 << 20
"""Bytes of a file that is read, unpacked: launch logs hold arguments at their beginning."""
LARGEST_TABLE = 4 << 20
"""Bytes of a file that is one table."""

Part = list[Document]
"""The readings of one part of a file, of which at most one is right."""

_SHELL = re.compile(r"(?:^|[\s\"'])--[A-Za-z][\w.-]*", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#+(?!!)\s?(.*)$")
_LANGUAGE_OF = {".toml": "toml", ".py": "python", ".yaml": "yaml", ".yml": "yaml"}
_WRAPPED = re.compile(r"([^.\[]+)\.value(?![^.\[])(.*)")


def load(path: Path) -> tuple[list[Part], str | None]:
    """The parts of a file, and what a parser said against it if nothing could be parsed.

    Raises:
        ConfigError: no file, too large, binary, a pickle, or JSON that is torn.
    """
    text = read_text(path)
    name = str(path)
    shown = printable(path)
    if text.lstrip()[:1] == "{":
        try:
            return [[_json(name, shown, text)]], None
        except ConfigError:
            # GPT-NeoX's YAML begins so, too, and holds comments and commas too many.
            readings = [] if path.suffix == ".json" else _tables(name, text)[0]
            if not readings:
                raise
            return [readings], None
    parts: list[Part] = []
    if dumps.has_block(text):
        parts += [[document] for document in dumps.documents(name, text)]
        if parts:
            return parts, None
    if len(text) > LARGEST_TABLE:
        raise ConfigError(
            f"{shown}: more than {LARGEST_TABLE >> 20} MB and without a block of arguments: "
            "no configuration is so large"
        )
    readings, problem = _tables(name, text)
    if readings:
        parts.append(readings)
    if _SHELL.search(text) and len(text) <= shell.LARGEST:
        parts += _script(name, shown, text, readings)
    return parts, problem


def read_text(path: Path) -> str:
    """The text of a file, unpacked.

    Raises:
        ConfigError: as :func:`load`.
    """
    from surefoot.readers.text.decoding import encoding_of
    from surefoot.readers.text.opening import Source

    shown = printable(path)
    if path.is_dir():
        raise ConfigError(f"{shown}: is a folder; name files in it")
    try:
        with Source(path) as source:
            head = source.head
            _refuse_binary(head, shown)
            data = source.whole(LARGEST)
    except LogError as error:
        raise ConfigError(str(error)) from None
    text = data.decode(encoding_of(head), errors="replace")
    return text.replace("\r\n", "\n")


def _refuse_binary(head: bytes, shown: str) -> None:
    pickled = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if pickled or head[:4] == b"PK\x03\x04":
        raise ConfigError(
            f"{shown}: a pickle or torch archive, which can run code and is never loaded; in the "
            "trainer's environment write its settings as JSON, e.g. "
            "open('args.json', 'w').write(args.to_json_string())"
        )
    # UTF-16 has zeros too, but at every other place only.
    half = max(1, len(head) // 2)
    fewer, more = sorted(head[start : 2 * half : 2].count(0) for start in (0, 1))
    if fewer + more and not (more > 0.3 * half and fewer < 0.1 * half):
        raise ConfigError(f"{shown}: binary; a configuration is text")


def _json(name: str, shown: str, text: str) -> Document:
    if len(text) > LARGEST_TABLE:
        raise ConfigError(f"{shown}: more than {LARGEST_TABLE >> 20} MB of JSON: no configuration")
    try:
        node, repeated, _ = jsons.parse(text)
        return unwrapped(Document(name, "json", flatten(node), repeated))
    except jsons.NotJson as error:
        raise ConfigError(f"{shown}:{error.line}: not valid JSON: {error}") from None
    except TooDeep as error:
        raise ConfigError(f"{shown}: {error}") from None


def _tables(name: str, text: str) -> tuple[Part, str | None]:
    """The readings as TOML, Python and YAML; else what is wrong in the language of its name."""
    readings: Part = []
    problems: list[tuple[str, str]] = []
    comments = _comments(text)
    languages: tuple[tuple[str, Callable[[str], list[tuple[Node, list[tuple[Leaf, Leaf]]]]]], ...]
    languages = (
        ("toml", lambda t: [(tomls.parse(t), [])]),
        ("python", lambda t: [(python.parse(t), [])]),
        ("yaml", _yaml),
    )
    for kind, parse in languages:
        try:
            for node, repeated in parse(text):
                if isinstance(node.value, dict) and node.value:
                    leaves = flatten(node)
                    readings.append(unwrapped(Document(name, kind, leaves, repeated, comments)))
        except TooDeep as error:
            problems.append((kind, f"{printable(name)}: {error}"))
        except (tomls.NotToml, python.NotPython, yamls.NotYaml) as error:
            told = {"toml": "TOML", "python": "Python", "yaml": "YAML"}[kind]
            where = f"{printable(name)}:{error.line}"
            problems.append((kind, f"{where}: not valid {told}: {error}"))
    if readings:
        return readings, None
    wanted = _LANGUAGE_OF.get(Path(name).suffix.lower())
    return readings, next((text for kind, text in problems if kind == wanted), None)


def _yaml(text: str) -> list[tuple[Node, list[tuple[Leaf, Leaf]]]]:
    if len(text) > yamls.LARGEST:
        raise TooDeep(f"more than {yamls.LARGEST >> 20} MB of YAML")
    # A text without a colon is one scalar; most logs are torn early, but prose would be parsed.
    return yamls.parse(text) if ":" in text else []


def _comments(text: str) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if "#" in line and len(line) <= 2000 and (match := _COMMENT.search(line)):
            found.append((number, match[1].strip()))
    return found


def _script(name: str, shown: str, text: str, readings: Part) -> list[Part]:
    try:
        script = shell.Script(text)
    except OverflowError as error:
        raise ConfigError(f"{shown}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{shown}: lists nested too deeply") from None
    lines = commands.documents(name, script)
    parts: list[Part] = []
    if lines and readings:
        # Flags in a text that is a table: one of the two readings is wrong.
        readings += lines
    elif lines:
        parts.append(lines)
    for command in script.commands:
        program = marks.shown(command.words[0])
        body = command.here
        if body is None and program in ("echo", "printf") and command.target is not None:
            told = marks.line_of(command.words[1]) if len(command.words) > 1 else None
            body = (marks.without_lines(" ".join(command.words[1:])), told or command.line)
        if body is not None and body[0].lstrip()[:1] == "{":
            parts += _embedded(name, *body)
    return parts


def _embedded(name: str, body: str, line: int) -> list[Part]:
    try:
        node, repeated, _ = jsons.parse(body, first_line=line)
        return [[Document(name, "json", flatten(node), repeated)]]
    except ValueError:
        return []


def unwrapped(document: Document) -> Document:
    """The document inside W&B's ``config.yaml``, in which every value stands below ``value``."""
    keys = [key for key in document.leaves if not key.startswith(("wandb_version", "_wandb"))]
    inside = [key for key in keys if _WRAPPED.fullmatch(key) or key.endswith(".desc")]
    if not keys or len(inside) < 0.8 * len(keys):
        return document
    leaves = {}
    for key in keys:
        match = _WRAPPED.fullmatch(key)
        if match is not None:
            leaf = document.leaves[key]
            name = match[1] + match[2]
            leaves[name] = Leaf(name, leaf.value, leaf.line, leaf.open, leaf.misread)
    document.leaves, document.wrapper = leaves, "W&B"
    return document

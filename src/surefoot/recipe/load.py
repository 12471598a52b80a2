"""Read a recipe file, apply ``--set``, and remember where each value was stated."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import RecipeError, nearest
from surefoot.recipe.messages import fields_of
from surefoot.recipe.recipe import Recipe
from surefoot.records import Source


def load(path: str | Path, settings: Sequence[str] = ()) -> tuple[Recipe, dict[str, Source]]:
    """A recipe and the source of every value.

    Args:
        path: a ``.toml`` file.
        settings: overrides ``section.key=value``, in order; the value is read as TOML, and as a
            plain string where it is no TOML.

    Raises:
        RecipeError: one line that names the file and line, what was got and what was expected.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe; `ls recipes` shows those that ship") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot read this recipe as UTF-8 text: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None
    lines = _lines(text)
    sources = {
        name: Source(kind="recipe", file=str(path), line=lines.get(name)) for name in _leaves(data)
    }
    for setting in settings:
        name = override(data, setting)
        sources[name] = Source(kind="flag", flag=f"--set {setting}")
        lines.pop(name, None)
    _resolve_paths(data, path.parent)
    recipe = Recipe.parse(data, where=str(path), lines=lines)
    for name in _leaves(recipe.model_dump(mode="python")):
        sources.setdefault(name, Source(kind="default"))
    return recipe, sources


def override(data: dict[str, Any], setting: str) -> str:
    """Apply one ``section.key=value`` to a table in place; returns the dotted name."""
    name, separator, text = setting.partition("=")
    name = name.strip()
    if not separator or not name:
        raise RecipeError(f"--set {setting}: expected section.key=value")
    parts = name.split(".")
    known = fields_of(Recipe, ".".join(parts[:-1]))
    if parts[-1] not in known:
        hint = nearest(name, _all_names())
        raise RecipeError(f"--set {setting}: unknown key {name!r}{hint}")
    table = data
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise RecipeError(f"--set {setting}: {part!r} is not a section")
    table[parts[-1]] = _value(text.strip())
    return name


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _all_names() -> list[str]:
    names = list(Recipe.model_fields)
    for section in Recipe.model_fields:
        names += [f"{section}.{name}" for name in fields_of(Recipe, section)]
    return names


def _leaves(data: dict[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for key, value in data.items():
        if isinstance(value, dict):
            names += _leaves(value, f"{prefix}{key}.")
        else:
            names.append(f"{prefix}{key}")
    return names


def _lines(text: str) -> dict[str, int]:
    """Line number of each `key =` and `[section]` by dotted name; enough for recipes."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?\s*([\w.\-]+)\s*\]", line):
            section = header[1]
            found.setdefault(section, number)
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            found.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return found


def _resolve_paths(data: dict[str, Any], folder: Path) -> None:
    """Paths in a recipe are relative to the recipe, so that it means the same from anywhere."""
    section = data.get("data")
    if not isinstance(section, dict):
        return
    sources = section.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            source["path"] = str(_absolute(source["path"], folder))
    tokenizer = section.get("tokenizer")
    if isinstance(tokenizer, str) and tokenizer != "bpe":
        section["tokenizer"] = str(_absolute(tokenizer, folder))


def _absolute(path: str, folder: Path) -> Path:
    expanded = Path(path).expanduser()
    return expanded if expanded.is_absolute() else (folder / expanded).resolve()

"""Read a recipe file, apply ``--set``, and remember where each value was stated."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import RecipeError
from surefoot.recipe import toml
from surefoot.recipe.kinds import as_toml
from surefoot.recipe.messages import fields_of, unknown_key
from surefoot.recipe.recipe import Recipe
from surefoot.recipe.words import count, printable, short
from surefoot.records import Source


def load(path: str | Path, settings: Sequence[str] = ()) -> tuple[Recipe, dict[str, Source]]:
    """A recipe and the source of every value.

    Args:
        path: a ``.toml`` file. Paths in it are relative to its folder.
        settings: overrides ``section.key=value``, in order; the value is read as TOML, and as a
            plain string where it is no TOML. ``data.sources[0].path=...`` reaches into a list.
            Paths in it are relative to the working folder.

    Raises:
        RecipeError: one line that names the file and line, what was got and what was expected.
    """
    path = Path(path)
    shown = printable(path)
    data, lines = toml.read(path)
    if not data:
        needs = [name for name, field in Recipe.model_fields.items() if field.is_required()]
        raise RecipeError(f"{shown}: nothing in it; a recipe needs the sections {', '.join(needs)}")
    _resolve_paths(data, path.parent, shown)
    at = {name: f"{shown}:{line}" for name, line in lines.items()}
    sources = {
        name: Source(kind="recipe", file=str(path), line=lines.get(name)) for name in _leaves(data)
    }
    for setting in settings:
        name = override(data, setting)
        _resolve_paths(data, Path.cwd(), _flag(setting))
        sources[name] = Source(kind="flag", flag=f"--set {setting}")
        at[name] = _flag(setting)
    recipe = Recipe.parse(data, where=shown, at=at)
    for name in _leaves(recipe.model_dump(mode="python")):
        sources.setdefault(name, Source(kind="default"))
    return recipe, sources


def override(data: dict[str, Any], setting: str) -> str:
    """Apply one ``section.key=value`` to a table in place; returns the dotted name.

    Raises:
        RecipeError: no ``=``, an unknown key (the nearest known one is named), or a place in a
            list that has no such item.
    """
    name, separator, text = setting.partition("=")
    name = name.strip()
    if not separator or not name:
        raise RecipeError(f"{_flag(setting)}: expected section.key=value")
    parent, _, key = name.rpartition(".")
    if key not in fields_of(Recipe, parent):
        raise RecipeError(f"{_flag(setting)}: {unknown_key(Recipe, name)}")
    table: Any = data
    for part in parent.split(".") if parent else ():
        table = _step_into(table, part, setting)
    table[key] = toml.value(text.strip())
    return name


def _flag(setting: str) -> str:
    """A setting as messages name it: printable, and shortened where it is long."""
    return f"--set {short(printable(' '.join(setting.split())))}"


def _step_into(table: dict[str, Any], part: str, setting: str) -> dict[str, Any]:
    match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", part)
    if match is None:
        raise RecipeError(f"{_flag(setting)}: {part!r} is not the name of a section")
    name, index = match.groups()
    if index is None:
        inner = table.setdefault(name, {})
        if isinstance(inner, list):
            raise RecipeError(f"{_flag(setting)}: {name!r} is a list: say which, {name}[0]")
    else:
        items = table.get(name, [])
        if not isinstance(items, list) or int(index) >= len(items):
            there = count(len(items) if isinstance(items, list) else 0, "item")
            raise RecipeError(f"{_flag(setting)}: there is no {part}; {name} has {there}")
        inner = items[int(index)]
    if not isinstance(inner, dict):
        raise RecipeError(f"{_flag(setting)}: {part!r} is not a section")
    return inner


def _leaves(data: dict[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for key, value in data.items():
        if isinstance(value, dict):
            names += _leaves(value, f"{prefix}{key}.")
        else:
            names.append(f"{prefix}{key}")
    return names


def _resolve_paths(data: dict[str, Any], folder: Path, where: str) -> None:
    """Make the paths absolute, so that a recipe means the same from any working folder."""
    section = data.get("data")
    sources = section.get("sources") if isinstance(section, dict) else None
    places = [(source, "path") for source in sources] if isinstance(sources, list) else []
    places += [(section, "tokenizer"), (section, "cache_dir"), (data.get("init"), "pretrained")]
    for table, key in places:
        given = table.get(key) if isinstance(table, dict) else None
        if isinstance(given, str) and (key, given) != ("tokenizer", "bpe"):
            table[key] = _absolute(given, folder, where)


def _absolute(path: str, folder: Path, where: str) -> str:
    try:
        expanded = Path(path).expanduser()
        return str(expanded if expanded.is_absolute() else (folder / expanded).resolve())
    except (RuntimeError, ValueError) as error:  # ~nobody, or a NUL
        raise RecipeError(f"{where}: the path {as_toml(path)} cannot be used: {error}") from None

"""Read a TOML file for people: what cannot be read is said with file and line."""

import re
import tomllib
from pathlib import Path
from typing import Any

from surefoot.errors import RecipeError
from surefoot.recipe.words import printable, size

LARGEST_FILE = 1 << 17
"""Bytes of a recipe. A long one has a few thousand; far above that, it is some other file."""

_DEEPEST = 32
"""Tables inside tables; a recipe has 3."""

_DEEP = re.compile(rf"""^[ \t\[]*(?:[\w"'-]+[ \t]*\.[ \t]*){{{_DEEPEST}}}""", re.MULTILINE)
"""A dotted name of so many parts, which the parser would take seconds over."""

_WORDS = {
    "cannot overwrite a value": "a key is given twice",
    "cannot declare": "a section is given twice",
}


def read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The table of a TOML file, and the line of each key by dotted name.

    Items of a list of tables have names such as ``data.sources[0].path``.

    Raises:
        RecipeError: no file, a folder, too large, not UTF-8 or not TOML.
    """
    name = printable(path)
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST_FILE + 1)
        if len(found) > LARGEST_FILE:
            raise RecipeError(
                f"{name}: more than {size(LARGEST_FILE)}, which no recipe is; name a .toml file"
            )
        # Editors on Windows put a byte order mark first, which TOML does not know.
        text = found.decode("utf-8-sig")
    except FileNotFoundError:
        raise RecipeError(f"{name}: no such recipe") from None
    except IsADirectoryError:
        raise RecipeError(f"{name}: is a folder; name a recipe in it, a .toml file") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise RecipeError(f"{name}:{line}: {byte} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise RecipeError(f"{name}: cannot read this recipe: {error.strerror}") from None
    try:
        data = _loads(text)
    except RecursionError:
        raise RecipeError(f"{name}: not valid TOML: lists or tables nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(_not_toml(name, str(error))) from None
    except ValueError:
        raise RecipeError(f"{name}: a whole number of thousands of digits is no value") from None
    return data, _lines(text)


def value(text: str) -> Any:
    """One value as TOML; what is none (``fast``, ``runs/a b``) as a plain string."""
    try:
        found = _loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # Text with a line break could hold further keys, which must not vanish.
    return found["value"] if set(found) == {"value"} else text


def _not_toml(path: str, problem: str) -> str:
    match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", problem)
    what, line, column = match.groups() if match else (problem, "", "")
    what = what[:1].lower() + what[1:]
    for start, words in _WORDS.items():
        if what.startswith(start):
            what = words
    at = f"{path}:{line}" if line else path
    return f"{at}: not valid TOML: {what}" + (f" (column {column})" if column else "")


def _loads(text: str) -> dict[str, Any]:
    # [a.a.a...] is read without recursion, but what uses the table could not be.
    if _DEEP.search(text) or _is_deep(found := tomllib.loads(text)):
        raise RecursionError
    return found


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(_DEEPEST):
        tables = (item.values() if isinstance(item, dict) else item for item in level)
        level = [inner for table in tables for inner in table if isinstance(inner, dict | list)]
    return bool(level)


def _lines(text: str) -> dict[str, int]:
    """Line of each ``key =`` and ``[section]``; a key in quotes or inside a value is not found."""
    found: dict[str, int] = {}
    section, counts = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]", line):
            section = header[2]
            if header[1] == "[[":
                counts[section] = counts.get(section, -1) + 1
                section = f"{section}[{counts[section]}]"
            found.setdefault(section, number)
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            found.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return found

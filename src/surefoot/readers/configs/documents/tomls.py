"""TOML with lines."""

import re
import tomllib
from typing import Any

from surefoot.readers.configs.documents.tree import DEEPEST, Node, TooDeep

# A dotted name of so many parts takes the parser seconds.
_DEEP = re.compile(rf"""^[ \t\[]*(?:[\w"'-]+[ \t]*\.[ \t]*){{{DEEPEST}}}""", re.MULTILINE)
_HEADER = re.compile(r"\s{0,64}(\[\[?)\s{0,64}([\w.\-]+)\s{0,64}\]")
_KEY = re.compile(r"\s{0,64}([\w.\-]+)\s{0,64}=")


class NotToml(ValueError):
    """What is wrong, and the line."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def parse(text: str) -> Node:
    """The tree.

    Raises:
        NotToml: with the line.
        TooDeep: tables nested too deeply.
    """
    if _DEEP.search(text):
        raise TooDeep("tables nested too deeply")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+)", str(error))
        what = re.sub(r" \(at .*", "", str(error))
        raise NotToml(what[:1].lower() + what[1:], int(match[1]) if match else 1) from None
    except RecursionError:
        raise TooDeep("tables nested too deeply") from None
    except ValueError:
        raise NotToml("a whole number of thousands of digits is no value", 1) from None
    return _node(data, "", _lines(text), 1, 0)


def _node(value: Any, key: str, lines: dict[str, int], line: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise TooDeep("tables nested too deeply")
    line = lines.get(key, line)
    if isinstance(value, dict):
        inner = {
            name: _node(item, f"{key}.{name}" if key else name, lines, line, depth + 1)
            for name, item in value.items()
        }
        return Node(inner, line)
    if isinstance(value, list):
        items = [_node(v, f"{key}[{i}]", lines, line, depth + 1) for i, v in enumerate(value)]
        return Node(items, line)
    return Node(value.isoformat() if hasattr(value, "isoformat") else value, line)


def _lines(text: str) -> dict[str, int]:
    """Line of each ``key =`` and ``[section]``; what is inside a value has the line of its key."""
    found: dict[str, int] = {}
    section, counts = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = header[2]
            if header[1] == "[[":
                counts[section] = counts.get(section, -1) + 1
                section = f"{section}[{counts[section]}]"
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return found

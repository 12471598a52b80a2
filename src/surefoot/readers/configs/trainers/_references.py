"""References of OmegaConf: ``${model.width}``, ``${.width}``, ``${multiply:a, b}``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from surefoot.readers.configs.documents.tree import Document, Leaf

_REFERENCE = re.compile(r"\$\{([^${}]{1,200})\}")
_ROUNDS = 8
"""References inside one another: ``${multiply:${a}, ${b}}`` takes two."""
_DEEPEST = 24
"""References to references."""
_LONGEST = 2000
_LONGEST_PART = 1000


def resolved(document: Document) -> Document:
    """The document with its references put in, as far as it states what they refer to.

    What stands in another file, in the environment or in a resolver stays open. Sums that trainers
    register (``${multiply:a, b}``) are computed.
    """
    values = _Values(document.leaves)
    leaves = {key: values.leaf(key) for key in document.leaves}
    return replace(document, leaves=leaves)


class _Open(Exception):
    """Why a reference has no value."""


class _Values:
    """The leaves, each resolved once."""

    def __init__(self, leaves: Mapping[str, Leaf]) -> None:
        self.leaves = leaves
        self.found: dict[str, Any] = {}
        self.open: dict[str, str] = {}

    def leaf(self, key: str) -> Leaf:
        """The leaf with its references put in, or with what left it open."""
        leaf = self.leaves[key]
        if leaf.open is not None or not _refers(leaf.value):
            return leaf
        try:
            return replace(leaf, value=self.value(key, 0))
        except _Open as error:
            return replace(leaf, open=str(error))

    def value(self, key: str, depth: int) -> Any:
        """The value of a leaf that is stated.

        Raises:
            _Open: why there is none.
        """
        leaf = self.leaves[key]
        if key in self.open:
            raise _Open(self.open[key])
        if leaf.open is not None:
            raise _Open(leaf.open)
        if not _refers(leaf.value):
            return leaf.value
        if key in self.found:
            return self.found[key]
        if depth > _DEEPEST:
            raise _Open("refers to references without an end: not resolved")
        self.open[key] = "refers to itself: not resolved"  # unless it gets a value now
        try:
            if isinstance(leaf.value, tuple):
                found: Any = tuple(self._put_in(item, key, depth) for item in leaf.value)
            else:
                found = self._put_in(leaf.value, key, depth)
        except _Open as error:
            if depth == 0:
                self.open[key] = str(error)
            else:
                del self.open[key]  # it may be told better from its own place
            raise
        del self.open[key]
        self.found[key] = found
        return found

    def _put_in(self, value: Any, key: str, depth: int) -> Any:
        for _ in range(_ROUNDS):
            if not isinstance(value, str) or "${" not in value:
                return value
            if len(value) > _LONGEST:
                break
            whole = _REFERENCE.fullmatch(value)
            if whole is not None:
                value = self._look(whole[1].strip(), key, depth)
                continue
            before = value
            value = _REFERENCE.sub(lambda m: _text(self._look(m[1].strip(), key, depth)), value)
            if value == before or len(value) > 2 * _LONGEST:
                break
        raise _Open(f"{str(value)[:60]} is not resolved")

    def _look(self, name: str, key: str, depth: int) -> Any:
        if ":" in name:
            return _computed(name)
        if name.startswith("."):
            inner = name.lstrip(".")
            tables = key.split(".")[: -(len(name) - len(inner))]
            name = ".".join([*tables, inner])
        if name not in self.leaves:
            raise _Open(f"${{{name}}} is not stated in this file")
        return self.value(name, depth + 1)


def _refers(value: Any) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(item, str) and "${" in item for item in values)


def _text(value: Any) -> str:
    text = "null" if value is None else str(value)
    if len(text) > _LONGEST_PART:
        raise _Open(f"{text[:60]}... is too long to be put in")
    return text


_SUMS: Mapping[str, Callable[[float, float], float]] = {
    "multiply": lambda a, b: a * b,
    "mul": lambda a, b: a * b,
    "int_mul": lambda a, b: int(a * b),
    "add": lambda a, b: a + b,
    "sum": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "divide": lambda a, b: a / b,
    "div": lambda a, b: a / b,
    "int_div": lambda a, b: a // b,
}


def _computed(name: str) -> Any:
    resolver, _, arguments = name.partition(":")
    try:
        terms = [float(part) for part in arguments.split(",")]
        if resolver in _SUMS and len(terms) == 2:
            value = _SUMS[resolver](*terms)
            return int(value) if abs(value) < 1e15 and value == value // 1 else value
    except ValueError:
        pass
    except ArithmeticError as error:
        raise _Open(f"${{{name}}}: {error}") from None
    raise _Open(f"${{{name}}} is not known without running the trainer")

"""What a field of a recipe takes, in words: for error messages and for the recipe reference."""

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from surefoot.recipe.words import short

LARGEST = 2**63 - 1
"""Largest whole number of a recipe; what reads a recipe may keep it in 64 bits."""

_SCALARS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
}
_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def expected(field: FieldInfo) -> str:
    """What the field takes: ``a number > 0 or 'small'``, ``a whole number >= 0``."""
    return _words(field.annotation, field.metadata)


def default_words(field: FieldInfo) -> str:
    """The default as TOML; ``required``, or "" for one that is derived from other fields."""
    if field.is_required():
        return "required"
    return "" if field.default is None else as_toml(field.default)


def as_toml(value: Any) -> str:
    """A value as a recipe would say it; shortened where it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    return short(value.isoformat() if hasattr(value, "isoformat") else repr(value))


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, alone, optional or in a list; None if it holds a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (section_in(item) for item in typing.get_args(annotation))
    return next((found for found in inner if found is not None), None)


def _words(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        inner = [m for item in arguments[1:] for m in getattr(item, "metadata", [item])]
        return _words(arguments[0], [*metadata, *inner])
    if origin in (types.UnionType, typing.Union):
        options = [_words(item, metadata) for item in arguments if item is not type(None)]
        # Numbers before words: "a number > 0 or 'small'" reads better than the other way round.
        return " or ".join(sorted(options, key=lambda text: text.startswith("'")))
    if origin is typing.Literal:
        *first, last = [repr(item) for item in arguments]
        return f"{', '.join(first)} or {last}" if first else last
    if origin is tuple:
        return "a list of one or more tables" if section_in(annotation) else "a list"
    if section_in(annotation):
        return "a table"
    return _SCALARS[annotation] + _bounds(metadata)


def _bounds(metadata: typing.Sequence[Any]) -> str:
    found = [
        f"{sign} {_plain(getattr(item, name))}"
        for item in metadata
        for name, sign in _SIGNS.items()
        if getattr(item, name, None) not in (None, LARGEST)
    ]
    return f" {' and '.join(found)}" if found else ""


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"

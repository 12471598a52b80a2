"""The fields of a TrainSpec by dotted path, and values made to fit them."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from surefoot.records import TrainSpec

_TRUE = {"true", "yes", "on", "1", "enabled"}
_FALSE = {"false", "no", "off", "0", "disabled", "none"}
TOP = ("name", "trainer", "seed")
"""Fields of the spec itself."""


@cache
def kinds() -> Mapping[str, str]:
    """Dotted path -> ``int``, ``float``, ``bool``, ``str``, ``strs`` or ``floats``."""
    found: dict[str, str] = {"name": "str", "trainer": "str", "seed": "int"}
    for section, kind in typing.get_type_hints(TrainSpec).items():
        if dataclasses.is_dataclass(kind):
            for name, inner in typing.get_type_hints(kind).items():
                found[f"{section}.{name}"] = _kind(inner)
    return found


def _kind(annotation: Any) -> str:
    for item in typing.get_args(annotation):
        if typing.get_origin(item) is tuple:
            return f"{typing.get_args(item)[0].__name__}s"
        if item is not type(None):
            return str(item.__name__)
    raise TypeError(annotation)  # a field of a spec is optional


def fit(field: str, value: Any) -> Any:
    """The value as the field holds it: ``"6_000_000"`` and 6e6 as 6000000.

    Args:
        field: dotted path; ``environment.x`` and ``options.x`` take anything.
        value: as a file states it.

    Raises:
        ValueError: it does not fit; the message says what is expected.
    """
    kind = kinds().get(field)
    if kind is None:
        if field.startswith(("environment.", "options.")):
            return value
        raise KeyError(field)
    if kind in ("strs", "floats"):
        items = value if isinstance(value, tuple | list) else (value,)
        return tuple(_fit(kind[:-1], item) for item in items)
    return _fit(kind, value)


def _fit(kind: str, value: Any) -> Any:
    if kind == "bool":
        return _bool(value)
    if kind == "str":
        if isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("expected text")
        return str(value)
    number = _number(value)
    if kind == "float":
        return float(number)
    if not math.isfinite(number) or number != int(number):
        raise ValueError("expected a whole number")
    return int(number)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("expected true or false")


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or value is None:
        raise ValueError("expected a number")
    if isinstance(value, str):
        text = value.strip().replace(",", "")
        if len(text) > 64:
            raise ValueError("expected a number")
        try:
            return int(text)
        except ValueError:
            try:
                return float(text)
            except ValueError:
                raise ValueError("expected a number") from None
    if isinstance(value, int | float):
        return value
    raise ValueError("expected a number")

"""Frozen dataclasses to strict JSON values and back.

Strict JSON has no NaN: a non-finite number is written as the string ``"nan"``, ``"inf"`` or
``"-inf"`` and read back as a float wherever the field's type is a number. Unknown keys are ignored
on reading (a newer minor version may add them); missing ones take the field's default.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number_to_json(value: float) -> float | str:
    """``value`` itself if finite, else ``"nan"``, ``"inf"`` or ``"-inf"``."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def number_from_json(value: float | int | str) -> float:
    """Inverse of :func:`number_to_json`; raises ValueError for any other string."""
    if isinstance(value, str):
        if value not in _NON_FINITE:
            raise ValueError(f'expected a number or "nan", "inf", "-inf", got {value!r}')
        return _NON_FINITE[value]
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"expected a number that a float can hold, got {value!r}") from None


def to_json(value: Any) -> Any:
    """A value that ``json.dumps(..., allow_nan=False)`` accepts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return number_to_json(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return to_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [to_json(item) for item in items]
    raise TypeError(f"cannot write a {type(value).__name__} as JSON: {value!r}")


def from_json(cls: type[T], data: Any) -> T:
    """Rebuild a dataclass ``cls`` from what :func:`to_json` made of it.

    Raises:
        ValueError: naming the field whose value has the wrong type.
    """
    return typing.cast(T, _decode(cls, data, cls.__name__))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return data
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(kind), data, where)
    if origin is typing.Literal:
        return _one_of(typing.get_args(kind), data, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, data, where)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise ValueError(f"{where}: expected a table, got {data!r}")
        item = typing.get_args(kind)[1]
        return {key: _decode(item, value, f"{where}.{key}") for key, value in data.items()}
    return _decode_scalar(kind, data, where)


def _decode_union(options: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in options:
        return None
    # Exact types first, so that `int | float | str` gives back what went in.
    for option in options:
        if isinstance(option, type) and type(data) is option:
            return data
    options = tuple(option for option in options if option is not type(None))
    if len(options) == 1:
        return _decode(options[0], data, where)
    for option in options:
        try:
            return _decode(option, data, where)
        except ValueError:
            continue
    names = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise ValueError(f"{where}: expected {names}, got {data!r}")


def _decode_dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: expected a table, got {data!r}")
    hints = _hints(kind)
    fields = dataclasses.fields(kind)
    missing = [repr(f.name) for f in fields if _required(f) and f.name not in data]
    if missing:
        raise ValueError(f"{where}: missing {', '.join(missing)}")
    known = {f.name for f in fields}
    return kind(**{k: _decode(hints[k], v, f"{where}.{k}") for k, v in data.items() if k in known})


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _one_of(known: tuple[Any, ...], data: Any, where: str) -> Any:
    if data not in known:
        raise ValueError(f"{where}: expected one of {', '.join(map(repr, known))}, got {data!r}")
    return data


def _decode_tuple(args: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise ValueError(f"{where}: expected a list, got {data!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(args) != len(data):
        raise ValueError(f"{where}: expected {len(args)} items, got {len(data)}")
    pairs = enumerate(zip(args, data, strict=True))
    return tuple(_decode(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _decode_scalar(kind: Any, data: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(_one_of(tuple(item.value for item in kind), data, where))
    if kind is float and isinstance(data, int | float | str) and not isinstance(data, bool):
        try:
            return number_from_json(data)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if isinstance(kind, type) and isinstance(data, kind):
        if kind is int and isinstance(data, bool):
            raise ValueError(f"{where}: expected int, got {data!r}")
        return data
    name = getattr(kind, "__name__", str(kind))
    raise ValueError(f"{where}: expected {name}, got {data!r}")

"""The records of ``.wandb`` files that tell something of a run, from their protocol buffers."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from surefoot.readers.logs._protobuf import BYTES, FIXED64, VARINT, fields, signed, text
from surefoot.readers.numbers import number

HISTORY, CONFIG, TELEMETRY, METRIC, RUN, EXIT, ENVIRONMENT = 2, 5, 11, 12, 17, 18, 26
_DOUBLE = Struct("<d")
_LONGEST = 1 << 20
_DEEPEST = 32

Item = tuple[tuple[str, ...], Any]
"""A path of keys and its value, decoded from JSON."""


@dataclass(slots=True)
class Row:
    """One history record.

    Attributes:
        step: the logger's own count; None if not told.
        values: the numbers in it, nested keys joined with dots.
    """

    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)


def kind_of(record: bytes) -> tuple[int, int, int]:
    """(number, begin, end) of the message that a Record holds; (0, 0, 0) if none of interest."""
    for key, wire, begin, end, _ in fields(record, 0, len(record)):
        known = key in (HISTORY, CONFIG, TELEMETRY, METRIC, RUN, EXIT, ENVIRONMENT)
        if known and wire == BYTES:
            return key, begin, end
    return 0, 0, 0


def history(record: bytes, begin: int, end: int) -> Row:
    """A HistoryRecord. Texts, lists, media and histograms are left out, truth values are 0 or 1."""
    row = Row()
    media: set[tuple[str, ...]] = set()
    told: list[tuple[tuple[str, ...], float]] = []
    for key, wire, at, stop, _ in fields(record, begin, end):
        if key == 1 and wire == BYTES:
            path, value = _item(record, at, stop)
            if path and path[-1] == "_type":
                media.add(path[:-1])
            _flatten(path, value, told)
        elif key == 2 and wire == BYTES:
            for inner, kind, _, _, count in fields(record, at, stop):
                if inner == 1 and kind == VARINT:
                    row.step = signed(count)
            if row.step is None:
                row.step = 0  # zero is not written
    for path, value in told:
        if not path or (media and any(path[:n] in media for n in range(len(path)))):
            continue
        if path == ("_step",):
            if math.isfinite(value) and abs(value) < 2**63:
                row.step = int(value)
        elif path[0] != "_wandb":
            row.values.setdefault(".".join(path), value)
    return row


def items(record: bytes, begin: int, end: int, number_of: int = 1) -> Iterator[Item]:
    """Paths and values of the ConfigItems of a ConfigRecord."""
    for key, wire, at, stop, _ in fields(record, begin, end):
        if key == number_of and wire == BYTES:
            path, value = _item(record, at, stop)
            if path and path[0] != "_wandb":
                yield path, value


def _item(record: bytes, begin: int, end: int) -> Item:
    """A HistoryItem, SummaryItem or ConfigItem: a key or a path of keys, and a value."""
    single, path = "", []
    value: Any = None
    for key, wire, at, stop, count in fields(record, begin, end):
        if key == 1 and wire == BYTES:
            single = text(record, at, stop)
        elif key == 2 and wire == BYTES:
            path.append(text(record, at, stop))
        elif key in (8, 16) and wire == BYTES:
            value = _json(record, at, stop)
        elif key == 6 and wire == FIXED64:
            value = _DOUBLE.unpack_from(record, at)[0]
        elif key == 5 and wire == VARINT:
            value = (count >> 1) ^ -(count & 1)
        elif key == 4 and wire == VARINT:
            value = bool(count)
        elif key == 7 and wire == BYTES:
            value = text(record, at, stop)
    return tuple(path) if path else ((single,) if single else ()), value


def _json(record: bytes, begin: int, end: int) -> Any:
    """A value as JSON; None for what is too long or no JSON."""
    if end - begin > _LONGEST:
        return None
    raw = record[begin:end]
    if raw[:1] not in b'{["':
        plain = text(raw, 0, len(raw))
        value = number(plain)
        if value is not None:
            return int(plain) if plain.lstrip("-").isdecimal() and len(plain) < 16 else value
        return {"true": True, "false": False}.get(plain)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _flatten(path: tuple[str, ...], value: Any, told: list[tuple[tuple[str, ...], float]]) -> None:
    if isinstance(value, bool | int | float):
        try:
            told.append((path, float(value)))
        except OverflowError:  # a whole number of more than 308 digits
            told.append((path, math.inf if value > 0 else -math.inf))
    elif isinstance(value, dict) and "_type" not in value and len(path) < _DEEPEST:
        for key, inner in value.items():
            _flatten((*path, key), inner, told)

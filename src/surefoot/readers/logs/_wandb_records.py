"""The records of ``.wandb`` files that tell something of a run, from their protocol buffers."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from surefoot.readers.logs._protobuf import BYTES, FIXED64, VARINT, fields, signed, text, varint
from surefoot.readers.numbers import number

HISTORY, CONFIG, TELEMETRY, METRIC, RUN, EXIT, ENVIRONMENT = 2, 5, 11, 12, 17, 18, 26
_DOUBLE = Struct("<d")
_ITEM, _KEYS, _VALUE = 0x0A, (0x0A, 0x12), b"\x82\x01"
"""Tags of an item, of its key or path of keys, and of its value in JSON."""
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


def history(record: bytes, begin: int, end: int, known: dict[bytes, str]) -> Row:
    """A HistoryRecord. Texts, lists, media and histograms are left out, truth values are 0 or 1.

    Items with a plain key and a number, nearly all there are, are read in place; ``known`` holds
    the keys that were met in them.
    """
    row = Row()
    media: set[tuple[str, ...]] = set()
    told: list[tuple[tuple[str, ...], float]] = []
    values = row.values
    at = begin
    while at < end:
        first, length = at + 2, record[at + 1] if at + 1 < end else 0
        if record[at] == _ITEM and length >= 128:
            length, first = varint(record, at + 1, end)
        if record[at] != _ITEM or first + length > end:
            at = _step(record, at, end, row)
            continue
        stop = first + length
        plain = _plain(record, first, stop)
        if plain is not None:
            name = known.get(plain[0])
            if name is None:
                name = known[plain[0]] = plain[0].decode("utf-8", "replace")
            values.setdefault(name, plain[1])
        else:
            path, value = _item(record, first, stop)
            if len(path) > 1 and path[-1] == "_type":
                media.add(path[:-1])
            _flatten(path, value, told)
        at = stop
    for path, amount in told:
        if (
            path
            and path[0] != "_wandb"
            and not (media and any(path[:n] in media for n in range(1, len(path))))
        ):
            values.setdefault(".".join(path), amount)
    step = values.pop("_step", math.nan)
    if math.isfinite(step) and abs(step) < 2**63:
        row.step = int(step)
    return row


def _plain(record: bytes, begin: int, end: int) -> tuple[bytes, float] | None:
    """(key, number) of an item that is one short key and a number in JSON; None for another."""
    if end - begin < 6 or record[begin] not in _KEYS:
        return None
    middle = begin + 2 + record[begin + 1]
    if middle + 3 >= end or record[middle : middle + 2] != _VALUE:
        return None
    if middle + 3 + record[middle + 2] != end or record[begin + 1] > 127 or end - middle > 130:
        return None
    raw = record[middle + 3 : end]
    try:
        return record[begin + 2 : middle], float(raw)
    except ValueError:
        return None


def _step(record: bytes, at: int, end: int, row: Row) -> int:
    """Read one field that is no item; where the next one begins."""
    for key, wire, begin, stop, _ in fields(record, at, end):
        if key == 2 and wire == BYTES:
            row.step = 0  # zero is not written
            for inner, kind, _, _, count in fields(record, begin, stop):
                if inner == 1 and kind == VARINT:
                    row.step = signed(count)
        return stop
    return end


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

"""Tables within JSON documents: lists of records, lists of one length, objects of steps."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from surefoot.readers.logs._json import is_lines
from surefoot.readers.logs._records import (
    flatten,
    is_metric,
    signal_of,
    step_rank,
    step_value,
    value_of,
)

if TYPE_CHECKING:
    from surefoot.readers.logs._tables import Column

MOST_NESTED = 6
_KEY = re.compile(rb'"((?:[^"\\\n]|\\.){1,200})"\s*:')
_COLUMNS = re.compile(rb'"columns"\s*:\s*\[([^\[\]{}]{0,20000})\]')
_TEXT = re.compile(rb'"((?:[^"\\\n]|\\.){1,200})"')
_LIST = re.compile(rb'"([^"\n]{1,200})"\s*:\s*\[\s*-?(?:\d|NaN|null|"nan")')
_ROW = re.compile(r"-?\d{1,15}")


def likeness(head: bytes, said: Mapping[str, str]) -> float:
    """How sure it is that a document holds metrics, from its first bytes."""
    if head[:1] not in (b"{", b"[") or is_lines(head):
        return 0.0
    keys = set()
    for found in _KEY.finditer(head):
        keys.add(found[1].decode("utf-8", errors="replace"))
        if len(keys) > 2000:
            break
    named = _COLUMNS.search(head)
    texts = _TEXT.findall(named[1]) if named is not None else []
    keys |= {text.decode("utf-8", errors="replace") for text in texts}
    keys = {_unescaped(key) for key in keys}
    if any(key in keys for key in said.values()):
        return 0.95
    metrics = sum(is_metric(key) for key in keys)
    if not metrics:
        return 0.0
    steps = any(step_rank(key) is not None for key in keys)
    lists = any(
        is_metric(_unescaped(found[1].decode("utf-8", errors="replace")))
        for found in _LIST.finditer(head)
    )
    records = re.search(rb"[\[}]\s*,?\s*\{", head) is not None
    stepped = re.search(rb'\{\s*"\d{1,15}"\s*:', head) is not None
    if not (lists or records or stepped or texts):
        return 0.3 if steps and len(head) < 4096 else 0.0  # one record; or a configuration
    return 0.94 if steps or stepped else 0.7


def columns_of(document: Any, said: Collection[str] = ()) -> dict[str, "Column"]:
    """The columns of the largest table with metrics in a document; empty if there is none.

    Args:
        document: as decoded.
        said: keys that are metrics because the user says so.
    """
    best: dict[str, Column] = {}
    most = 0
    for rows in _tables(document, 0):
        columns = _columns(rows)
        size = sum(len(told) for _, told in columns.values())
        known = any(key in said or signal_of(key) is not None for key in columns)
        if known and size > most:
            best, most = columns, size
    return best


def by_step(values: Mapping[Any, Any]) -> dict[int, float]:
    """Numbers by step; what was not logged, as the text ``"nan"`` says, is left out."""
    told = {}
    for key, value in values.items():
        step = step_value(key)[0]
        number = None if isinstance(value, str) and value.lower() == "nan" else value_of("", value)
        if step is not None and number is not None:
            told[step] = number
    return told


def _tables(part: Any, depth: int) -> list[Sequence[Mapping[str, object]]]:
    """Every table in a part of a document, as records."""
    if depth > MOST_NESTED:
        return []
    if isinstance(part, list):
        if part and all(isinstance(item, dict) for item in part):
            return [[flatten(item) for item in part]]
        return [table for item in part for table in _tables(item, depth + 1)]
    if not isinstance(part, dict):
        return []
    names, rows = part.get("columns"), part.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        return [[dict(zip(map(str, names), r, strict=False)) for r in rows if isinstance(r, list)]]
    if part and all(_ROW.fullmatch(str(k)) and isinstance(v, dict) for k, v in part.items()):
        return [[{"step": key, **flatten(value)} for key, value in part.items()]]
    flat = _lists(part, "")
    lengths = [len(values) for values in flat.values()]
    found: list[Sequence[Mapping[str, object]]] = []
    if flat:
        longest = max(lengths)
        same = {key: values for key, values in flat.items() if len(values) == longest}
        found.append(
            [dict(zip(same, row, strict=True)) for row in zip(*same.values(), strict=True)]
        )
    steps = {
        key: value
        for key, value in part.items()
        if isinstance(value, dict) and value and all(_ROW.fullmatch(str(k)) for k in value)
    }
    if steps:
        rows_by: dict[int, dict[str, object]] = {}
        for key, series in steps.items():
            for step, value in by_step(series).items():
                rows_by.setdefault(step, {})[key] = value
        stepped = any(step_rank(key) is not None for key in steps)
        found.append(
            [rows_by[at] if stepped else {"step": at, **rows_by[at]} for at in sorted(rows_by)]
        )
    if not found:
        inner = [table for value in part.values() for table in _tables(value, depth + 1)]
        found += inner or ([[flatten(part)]] if not depth else [])
    return found


def _lists(part: Mapping[str, Any], prefix: str, depth: int = 0) -> dict[str, list[Any]]:
    """Lists of numbers in nested objects, by flat key."""
    flat: dict[str, list[Any]] = {}
    for key, value in part.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth < MOST_NESTED:
            flat.update(_lists(value, f"{name}/", depth + 1))
        elif isinstance(value, list) and value and not isinstance(value[0], dict | list):
            flat[name] = value
    return flat


def _columns(rows: Sequence[Mapping[str, object]]) -> dict[str, "Column"]:
    import numpy as np

    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns: dict[str, Column] = {}
    for key in keys:
        values, told = np.zeros(len(rows)), np.zeros(len(rows), bool)
        rank = step_rank(key)
        for at, row in enumerate(rows):
            value = row.get(key)
            number = value_of(key, value)
            if number is None and rank is not None:
                step = step_value(value)[0]  # "1/94"
                number = None if step is None else float(step)
            if number is not None:
                values[at], told[at] = number, True
        if told.any():
            columns[key] = values, told
    return columns


def _unescaped(key: str) -> str:
    if "\\" not in key:
        return key
    try:
        return str(json.loads(f'"{key}"'))
    except ValueError:
        return key

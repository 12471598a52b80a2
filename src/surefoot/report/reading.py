"""How another trainer's log was read, in words: format, attempts, fields, what was left out."""

from collections.abc import Mapping
from typing import Any

from surefoot.records import Run, signal_of
from surefoot.report.text import count, number, plain

_SURE = ((0.9, "surely"), (0.6, "probably"), (0.0, "perhaps"))
_FIELDS = 40
"""Fields that are named; of more the rest is counted."""
_OVERLAPS = 3


def reading_rows(run: Run) -> list[tuple[str, str]]:
    """(what, words) pairs, in the order to show; none for a run folder of surefoot."""
    told = run.reading
    if not told:
        return []
    rows = [("read as", _format(told))]
    files = told.get("files", [])
    if len(files) > 1:
        named = ", ".join(plain(file) for file in files[:4])
        more = f" and {len(files) - 4:,} more" if len(files) > 4 else ""
        rows.append(("files", named + more))
    if told.get("repeated"):
        again = told["repeated"]
        more = f" and {len(again) - 3:,} more" if len(again) > 3 else ""
        rows.append(("told again", ", ".join(plain(file) for file in again[:3]) + more))
    if told.get("not_read"):
        other = told["not_read"]
        more = f" and {len(other) - 3:,} more" if len(other) > 3 else ""
        rows.append(("not read", ", ".join(plain(file) for file in other[:3]) + more))
    if told.get("settings"):
        rows.append(("settings", ", ".join(plain(file) for file in told["settings"][:4])))
    if len(told.get("attempts", [])) > 1:
        rows.append(("attempts", _attempts(told["attempts"])))
        rows += [("overlap", _overlap(item)) for item in told.get("overlaps", [])[:_OVERLAPS]]
    fields: Mapping[str, Mapping[str, Any]] = told.get("fields", {})
    known = {column: field for column, field in fields.items() if field.get("known")}
    if known:
        rows.append(("fields", _named([_field(*item) for item in known.items()])))
    other = [plain(field["key"]) for column, field in fields.items() if column not in known]
    if other:
        rows.append(("also kept", _named(other)))
    facts = told.get("facts", {})
    if facts.get("steps_are"):
        rows.append(("steps", f"are {plain(facts['steps_are'])}: the log tells no step"))
    return rows


def _format(told: Mapping[str, Any]) -> str:
    sure = float(told.get("sure", 0.0))
    word = next(word for least, word in _SURE if sure >= least)
    second = told.get("second")
    if second is None:
        rest = "no second guess"
    else:
        rest = f"second guess {plain(second['format'])} ({float(second['sure']):.2f})"
    return f"{plain(told.get('title', told.get('format', '?')))} ({word}, {sure:.2f}; {rest})"


def _attempts(attempts: list[Mapping[str, int]]) -> str:
    spans = [f"{a['first']:,} to {a['last']:,}" for a in attempts[:6]]
    more = f" and {len(attempts) - 6:,} more" if len(attempts) > 6 else ""
    return f"{len(attempts):,}: steps {'; '.join(spans)}{more}"


def _overlap(item: Mapping[str, Any]) -> str:
    first, last = item["steps"]
    steps = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    head = f"attempt {item['attempts'][1]} tells {steps} again"
    if item["equal"]:
        return f"{head}: the losses are equal as printed"
    return (
        f"{head}: the losses differ from step {item['first_different']:,} on, "
        f"by up to {number(item['largest'])} nat"
    )


def _field(column: str, field: Mapping[str, Any]) -> str:
    key, factor = plain(field["key"]), float(field["factor"])
    if key == column and factor == 1.0:
        return column
    signal = signal_of(column)
    unit = f" → {signal.unit}" if factor != 1.0 and signal is not None else ""
    return f"{column} ({key}{unit})"


def _named(names: list[str]) -> str:
    more = f" and {count(len(names) - _FIELDS, 'field')} more" if len(names) > _FIELDS else ""
    return ", ".join(names[:_FIELDS]) + more

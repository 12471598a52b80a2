"""Long tables: one number a row, beside the name of what it is (``step, tag, value``)."""

from collections.abc import Iterator, Sequence

from surefoot.readers.logs._records import signal_of, stem_of, step_rank, step_value, value_of
from surefoot.readers.points import Item, Note, Point

_NAMES = ("tag", "metric", "name", "key", "variable", "signal", "metric_name", "metrickey")
_VALUES = ("value", "values", "metric_value", "y")

Columns = tuple[str, str, str]
"""Names of the columns of the step, of what is told, and of the number."""


def columns_of(header: Sequence[str], step_key: str | None = None) -> Columns | None:
    """Which columns are which, if a table is long; else None."""
    by_stem = {stem_of(name): name for name in header}
    name = next((by_stem[stem] for stem in _NAMES if stem in by_stem), None)
    value = next((by_stem[stem] for stem in _VALUES if stem in by_stem), None)
    ranked = sorted((rank, key) for key in header if (rank := step_rank(key)) is not None)
    step = step_key or (ranked[0][1] if ranked else None)
    return (step, name, value) if step and name and value and step in header else None


def is_long(rows: Sequence[Sequence[str]], header: Sequence[str], columns: Columns) -> bool:
    """Whether what the first rows tell are metrics."""
    at = header.index(columns[1])
    names = {row[at] for row in rows if len(row) > at}
    return any(signal_of(name) is not None for name in names)


def points(rows: Iterator[tuple[str, str, str]]) -> Iterator[Item]:
    """Points of (step, name, number) rows.

    A table that tells one quantity after another is put into the order of its steps; one that
    tells them step by step is taken as it stands, so that a restart stays one.
    """
    told: list[tuple[int, str, float]] = []
    within = back = 0
    last: dict[str, int] = {}
    for first, name, number in rows:
        step, value = step_value(first)[0], value_of(name, number)
        if step is None or value is None:
            continue
        if told and step < told[-1][0]:
            back += 1
            within += step <= last.get(name, step - 1)
        last[name] = step
        told.append((step, name, value))
    if back and not within:
        told.sort(key=lambda row: row[0])
    elif back:
        yield Note("facts", data={"rows_are": "one number each, in the order of the file"})
    held: dict[str, float] = {}
    for at, (step, name, value) in enumerate(told):
        held[name] = value
        if at + 1 == len(told) or told[at + 1][0] != step:
            yield Point(step, held)
            held = {}

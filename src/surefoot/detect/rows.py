"""A run's table as the records that a detector would have seen, one after the other."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from surefoot.records import Run, StepRecord, is_volatile
from surefoot.runs import PLACES

if TYPE_CHECKING:
    import polars

SLICE = 100_000
"""Rows of a long table that are on the way as Python values at once."""
MOST_ATTEMPTS = 50
"""Attempts given up that are judged, the newest ones: each is judged with all that led to it."""

Places = Mapping[str, tuple[str, ...]]


def histories(run: Run) -> Iterator[Iterator[StepRecord]]:
    """What a run had come to each time it was started again, and at last the winning history.

    Each is that which one detector would have seen that was resumed with its state: the rows that
    stood when the attempt began, then the attempt's own.
    """
    lost = run.superseded
    if lost is not None and len(lost):
        import polars as pl

        rows = pl.concat([lost, run.signals], how="diagonal_relaxed").sort("attempt", "step")
        given_up = lost["attempt"].unique().sort().to_list()
        for attempt in given_up[-MOST_ATTEMPTS:]:
            yield step_records(rows.filter(pl.col("attempt") <= attempt))
    yield step_records(run.signals)


def step_records(signals: "polars.DataFrame") -> Iterator[StepRecord]:
    """The rows of a run's table as records, in order of their steps, the last of equal ones.

    Of a table that holds more than the winning history, the rows which a later attempt went back
    over are left out, those too that it has not reached again.

    Args:
        signals: of a Run: every column of numbers is taken but the volatile ones, and the lists of
            per-place signals.
    """
    if "step" not in signals.columns or not len(signals):
        return
    if not _in_order(signals):
        signals = signals[_standing(signals)]
    for begin in range(0, len(signals), SLICE):
        yield from _records(signals[begin : begin + SLICE])


def _standing(signals: "polars.DataFrame") -> list[int]:
    """Rows of the history that stands, by step."""
    steps = signals["step"].to_list()
    attempts = signals["attempt"].to_list() if "attempt" in signals.columns else [0] * len(steps)
    rows: dict[int, int] = {}
    begins: dict[int, int] = {}
    for row, step in enumerate(steps):
        if step is not None:
            attempt = attempts[row] or 0
            begins[attempt] = min(step, begins.get(attempt, step))
            if step not in rows or attempt >= (attempts[rows[step]] or 0):
                rows[step] = row
    standing = []
    for step in sorted(rows):
        own = attempts[rows[step]] or 0
        if not any(attempt > own and step >= begin for attempt, begin in begins.items()):
            standing.append(rows[step])
    return standing


def _in_order(signals: "polars.DataFrame") -> bool:
    """Whether nothing of a table was gone over: each step once, rising, attempts too."""
    steps = signals["step"]
    if steps.null_count() or not bool((steps.diff().drop_nulls() > 0).all()):
        return False
    return "attempt" not in signals.columns or (
        not signals["attempt"].null_count() and signals["attempt"].is_sorted()
    )


def _records(rows: "polars.DataFrame") -> Iterator[StepRecord]:
    scalars, places = _columns(rows)
    steps = rows["step"].to_list()
    attempts = rows["attempt"].to_list() if "attempt" in rows.columns else [0] * len(steps)
    if "loss" not in scalars and "perplexity" in scalars:
        import polars as pl

        rows = rows.with_columns(pl.col("perplexity").log().alias("loss"))  # exp of the loss
        scalars.append("loss")
    columns = [rows[name].to_list() for name in scalars]
    lists = {name: rows[name + PLACES] for name in places}
    for row, (step, attempt) in enumerate(zip(steps, attempts, strict=True)):
        values = {
            name: column[row]
            for name, column in zip(scalars, columns, strict=True)
            if column[row] is not None
        }
        found: dict[str, Any] = {}
        for name, column in lists.items():
            value = column[row]
            if value is not None:
                found[name] = value.to_numpy()
        yield StepRecord(step=int(step), attempt=attempt or 0, values=values, places=found)


def _columns(rows: "polars.DataFrame") -> tuple[list[str], list[str]]:
    """Names of the scalar signals, and of the per-place ones, that a detector may look at."""
    scalars, places = [], []
    for name, kind in rows.schema.items():
        if name in ("step", "attempt") or is_volatile(name):
            continue
        if name.endswith(PLACES):
            places.append(name.removesuffix(PLACES))
        elif kind.is_numeric() or str(kind) == "Boolean":
            scalars.append(name)
    return scalars, places

"""A whole run through the detector: the findings with which each incident ended."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from surefoot.detect.loss import LossDetector
from surefoot.detect.messages import for_run, with_checkpoints
from surefoot.records import Finding, Run, StepRecord

if TYPE_CHECKING:
    import polars

SLICE = 100_000
"""Rows of a long table that are on the way as Python values at once."""
MOST_ATTEMPTS = 50
"""Attempts given up that are judged, the newest ones: each is judged with all that led to it."""
COLUMNS = ("loss", "grad_norm", "learning_rate", "loss_scale", "update_skipped")


def diagnose(run: Run, *, vocab_size: int | None = None) -> list[Finding]:
    """Findings on spikes, shifts, divergence, non-finite values and unusable metrics of a run.

    The run's table is fed to the same detector that watches online. Each incident gives one
    finding, the last that was told of it, and ``rewind_to_step`` is the newest checkpoint of the
    run before its onset. What happened in an attempt that was given up is told, too, if the run
    holds its rows (``superseded``): it is why the run was started again.

    Args:
        run: from a run folder or another trainer's log; columns it lacks are simply not judged.
        vocab_size: number of tokens; default: what the run's specification states.
    """
    vocab_size = vocab_size or run.spec.architecture.vocab_size
    latest: dict[str, Finding] = {}
    for records in histories(run):
        _follow(LossDetector(vocab_size=vocab_size), records, latest)
    steps = [info.step for info in run.checkpoints if info.status != "quarantined"]
    interval = None if steps else _saved_every(run)
    return [
        for_run(with_checkpoints(finding, steps, interval), run.name) for finding in latest.values()
    ]


def _saved_every(run: Run) -> int | None:
    """Steps between checkpoints, if that was asked for; an assumed default is no promise."""
    source = run.spec.sources.get("interval.checkpoint")
    assumed = source is not None and source.kind == "default"
    return None if assumed else run.spec.interval.checkpoint


def _follow(
    detector: LossDetector, records: Iterable[StepRecord], latest: dict[str, Finding]
) -> None:
    """Feed one history; the newest finding of each incident is put into ``latest``."""
    current: str | None = None
    for record in records:
        verdict = detector.update(record)
        for finding in verdict.findings:
            current = _remember(latest, finding) or current
        back = verdict.scores.get("recovered_step")
        if back is not None and current is not None and latest[current].code == "SPK004":
            # Told once, when it happened; the table knows how it went on.
            evidence = {**latest[current].evidence, "recovered_step": int(back)}
            latest[current] = replace(latest[current], evidence=evidence)
    for finding in detector.finish():
        _remember(latest, finding)


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
    """
    if "step" not in signals.columns or not len(signals):
        return
    names = [name for name in COLUMNS if name in signals.columns]
    if _in_order(signals):
        for begin in range(0, len(signals), SLICE):
            yield from _records(signals[begin : begin + SLICE], names)
        return
    columns = [signals[name].to_list() for name in names]
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
    for step in sorted(rows):
        row = rows[step]
        if any(attempt > (attempts[row] or 0) and step >= begins[attempt] for attempt in begins):
            continue
        values = {
            name: column[row]
            for name, column in zip(names, columns, strict=True)
            if isinstance(column[row], int | float)
        }
        yield StepRecord(step=int(step), attempt=attempts[row] or 0, values=values)


def _in_order(signals: "polars.DataFrame") -> bool:
    """Whether nothing of a table was gone over: each step once, rising, attempts too."""
    steps = signals["step"]
    if steps.null_count() or not bool((steps.diff().drop_nulls() > 0).all()):
        return False
    return "attempt" not in signals.columns or (
        not signals["attempt"].null_count() and signals["attempt"].is_sorted()
    )


def _records(rows: "polars.DataFrame", names: list[str]) -> Iterator[StepRecord]:
    attempts = rows["attempt"].to_list() if "attempt" in rows.columns else [0] * len(rows)
    columns = [rows[name].to_list() for name in names]
    for step, attempt, *told in zip(rows["step"].to_list(), attempts, *columns, strict=True):
        values = {
            name: value
            for name, value in zip(names, told, strict=True)
            if isinstance(value, int | float)
        }
        yield StepRecord(step=int(step), attempt=attempt, values=values)


def _remember(latest: dict[str, Finding], finding: Finding) -> str | None:
    """Keep the newest finding of its incident; the incident's id, None for family LOG."""
    incident = finding.evidence.get("incident")
    latest[incident or finding.code] = finding
    return incident

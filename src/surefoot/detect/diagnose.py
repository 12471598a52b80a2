"""A whole run through the detector: the findings with which each incident ended."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from surefoot.detect.loss import LossDetector
from surefoot.detect.messages import for_run, with_checkpoints
from surefoot.records import Finding, Run, StepRecord

if TYPE_CHECKING:
    import polars

COLUMNS = ("loss", "grad_norm", "learning_rate", "loss_scale", "update_skipped")


def diagnose(run: Run, *, vocab_size: int | None = None) -> list[Finding]:
    """Findings on spikes, shifts, divergence, non-finite values and unusable metrics of a run.

    The run's table is fed to the same detector that watches online. Each incident gives one
    finding, the last that was told of it, and ``rewind_to_step`` is the newest checkpoint of the
    run before its onset.

    Args:
        run: from a run folder or another trainer's log; columns it lacks are simply not judged.
        vocab_size: number of tokens; default: what the run's specification states.
    """
    detector = LossDetector(vocab_size=vocab_size or run.spec.architecture.vocab_size)
    latest: dict[str, Finding] = {}
    current: str | None = None
    for record in step_records(run.signals):
        verdict = detector.update(record)
        for finding in (*verdict.findings,):
            current = _remember(latest, finding) or current
        back = verdict.scores.get("recovered_step")
        if back is not None and current is not None and latest[current].code == "SPK004":
            # Told once, when it happened; the table knows how it went on.
            evidence = {**latest[current].evidence, "recovered_step": int(back)}
            latest[current] = replace(latest[current], evidence=evidence)
    for finding in detector.finish():
        _remember(latest, finding)
    steps = [info.step for info in run.checkpoints if info.status != "quarantined"]
    return [for_run(with_checkpoints(finding, steps), run.name) for finding in latest.values()]


def step_records(signals: "polars.DataFrame") -> Iterator[StepRecord]:
    """The rows of a run's table as records, in order of their steps, the last of equal ones.

    Of a table that holds more than the winning history, the rows which a later attempt went back
    over are left out, those too that it has not reached again.
    """
    if "step" not in signals.columns or not len(signals):
        return
    names = [name for name in COLUMNS if name in signals.columns]
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


def _remember(latest: dict[str, Finding], finding: Finding) -> str | None:
    """Keep the newest finding of its incident; the incident's id, None for family LOG."""
    incident = finding.evidence.get("incident")
    latest[incident or finding.code] = finding
    return incident

"""A whole run through the detector: the findings with which each incident ended."""

from collections.abc import Iterable
from dataclasses import replace

from surefoot.detect.messages import for_run, with_checkpoints
from surefoot.detect.rows import histories
from surefoot.detect.spikes import FALSE_ALARMS_PER_10K, SpikeDetector
from surefoot.records import Finding, Run, StepRecord


def diagnose(
    run: Run,
    *,
    vocab_size: int | None = None,
    false_alarms_per_10k: float = FALSE_ALARMS_PER_10K,
) -> list[Finding]:
    """Findings on spikes, shifts, divergence, non-finite values and unusable metrics of a run.

    The run's table is fed to the same detector that watches online. Each incident gives one
    finding, the last that was told of it, and ``rewind_to_step`` is the newest checkpoint of the
    run before its onset. What happened in an attempt that was given up is told, too, if the run
    holds its rows (``superseded``): it is why the run was started again.

    Args:
        run: from a run folder or another trainer's log; columns it lacks are simply not judged.
        vocab_size: number of tokens; default: what the run's specification states.
        false_alarms_per_10k: false incidents that may come on 10 000 healthy records.
    """
    latest: dict[str, Finding] = {}
    for records in histories(run):
        follow(detector_for(run, vocab_size, false_alarms_per_10k), records, latest)
    steps = _checkpoints(run)
    interval = None if steps else _saved_every(run)
    known = not run.reading and run.spec.data.content_sha256 is not None
    return [
        for_run(with_checkpoints(finding, steps, interval), run.name, data=known)
        for finding in latest.values()
    ]


def detector_for(
    run: Run, vocab_size: int | None, false_alarms_per_10k: float = FALSE_ALARMS_PER_10K
) -> SpikeDetector:
    """A fresh detector that knows what the run is known to have been asked."""
    return SpikeDetector(
        vocab_size=vocab_size or run.spec.architecture.vocab_size,
        places=run.places,
        spec=run.spec,
        false_alarms_per_10k=false_alarms_per_10k,
    )


def follow(
    detector: SpikeDetector, records: Iterable[StepRecord], latest: dict[str, Finding]
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


def _checkpoints(run: Run) -> list[int]:
    """Steps of the checkpoints that may be gone back to: found, or told in the ledger.

    Another loop keeps its checkpoints elsewhere, and only its ledger knows of them.
    """
    found = [info.step for info in run.checkpoints if info.status != "quarantined"]
    if run.checkpoints:
        return found
    told = (event for event in run.events if event.kind == "checkpoint")
    return [e.step for e in told if e.step is not None and not e.data.get("quarantine")]


def _saved_every(run: Run) -> int | None:
    """Steps between checkpoints, if that was asked for; an assumed default is no promise."""
    source = run.spec.sources.get("interval.checkpoint")
    assumed = source is not None and source.kind == "default"
    return None if assumed else run.spec.interval.checkpoint


def _remember(latest: dict[str, Finding], finding: Finding) -> str | None:
    """Keep the newest finding of its incident; the incident's id, None for family LOG."""
    incident = finding.evidence.get("incident")
    latest[incident or finding.code] = finding
    return incident

"""What happened in an attempt that was given up is why the run was started again: it is told."""

import math
from dataclasses import replace

import polars as pl

from surefoot.detect import diagnose
from surefoot.detect.rows import SLICE, step_records
from surefoot.records import CheckpointInfo, IntervalSpec, Run, Source, TrainSpec


def rows(steps: range, attempt: int, bad: range = range(0)) -> dict[str, list]:
    losses = [math.nan if i in bad else 3.0 + 0.02 * math.sin(7.3 * i) for i in steps]
    return {"step": list(steps), "attempt": [attempt] * len(steps), "loss": losses}


def run(signals: dict, superseded: dict | None = None) -> Run:
    lost = None if superseded is None else pl.DataFrame(superseded)
    return Run(name="r", signals=pl.DataFrame(signals), superseded=lost)


def joined(*tables: dict[str, list]) -> dict[str, list]:
    return {key: [value for table in tables for value in table[key]] for key in tables[0]}


def test_a_nan_that_a_restart_went_over_is_told_with_its_attempt():
    kept = joined(rows(range(1, 150), 0), rows(range(150, 400), 1))
    findings = diagnose(run(kept, rows(range(150, 201), 0, bad=range(180, 201))))
    assert [(f.code, f.place.attempt) for f in findings] == [("SPK004", 0)]
    assert findings[0].evidence["onset_step"] == 180


def test_without_the_lost_rows_nothing_is_told():
    kept = joined(rows(range(1, 150), 0), rows(range(150, 400), 1))
    assert diagnose(run(kept)) == []


def test_a_restart_from_the_beginning_is_no_spike():
    """The losses of a new model are no jump of the old one."""
    old = rows(range(1, 300), 0)
    new = rows(range(1, 300), 1)
    new["loss"] = [3.0 + 8.0 * math.exp(-i / 25) + 0.02 * math.sin(7.3 * i) for i in range(299)]
    assert diagnose(run(new, old)) == []


def test_troubles_of_two_lost_attempts_and_of_the_last_are_three_findings():
    kept = joined(
        rows(range(1, 100), 0),
        rows(range(100, 150), 1),
        rows(range(150, 400), 2, bad=range(390, 400)),
    )
    lost = joined(
        rows(range(100, 200), 0, bad=range(190, 200)),
        rows(range(150, 250), 1, bad=range(240, 250)),
    )
    findings = diagnose(run(kept, lost))
    told = sorted((f.place.attempt, f.evidence["onset_step"]) for f in findings)
    assert told == [(0, 190), (1, 240), (2, 390)]


def test_a_long_table_is_fed_whole_and_in_order():
    count = 2 * SLICE + 7
    table = {"step": range(1, count + 1), "attempt": [0] * count, "loss": [1.0] * count}
    records = list(step_records(pl.DataFrame(table)))
    assert [record.step for record in records] == list(range(1, count + 1))
    assert records[-1].values == {"loss": 1.0}


def test_the_checkpoint_that_the_configuration_asks_for_is_named():
    asked = TrainSpec(interval=IntervalSpec(checkpoint=50))
    table = pl.DataFrame(rows(range(1, 300), 0, bad=range(280, 300)))
    (finding,) = diagnose(Run(name="r", spec=asked, signals=table))
    assert finding.evidence["rewind_to_step"] == 250
    assert finding.evidence["checkpoint_interval"] == 50
    known = (CheckpointInfo(step=120, path="c"),)
    (finding,) = diagnose(Run(name="r", spec=asked, signals=table, checkpoints=known))
    assert finding.evidence["rewind_to_step"] == 120
    assert "checkpoint_interval" not in finding.evidence
    assumed = replace(asked, sources={"interval.checkpoint": Source(kind="default")})
    (finding,) = diagnose(Run(name="r", spec=assumed, signals=table))
    assert finding.evidence["rewind_to_step"] is None

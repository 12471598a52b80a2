"""A whole run through the detector: what is told of a table."""

import math

import numpy as np
import polars as pl
import pytest

from surefoot.detect import FALSE_ALARMS_PER_10K, SpikeDetector, diagnose, with_checkpoints
from surefoot.detect.rows import step_records
from surefoot.records import ArchitectureSpec, CheckpointInfo, Event, Finding, Run, TrainSpec


def table(steps=900, **columns):
    rng = np.random.default_rng(3)
    losses = 2.5 + 0.01 * rng.standard_normal(steps)
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(steps))
    losses[299:303] += 0.5
    losses[599:] += 0.3
    return pl.DataFrame(
        {"step": range(1, steps + 1), "loss": losses, "grad_norm": grads, **columns}
    )


def run(signals, **more):
    return Run(name="r7", signals=signals, **more)


def codes(found):
    return [(finding.code, finding.evidence["onset_step"]) for finding in found]


def test_one_finding_an_incident_the_last_that_was_told():
    found = diagnose(run(table()))
    assert codes(found) == [("SPK001", 300), ("SPK002", 600)]
    assert [finding.place.run for finding in found] == ["r7", "r7"]
    assert {finding.evidence["false_alarm_rate"] for finding in found} == {FALSE_ALARMS_PER_10K}


def test_it_says_what_the_detector_says_online():
    detector = SpikeDetector()
    online = [f for record in step_records(table()) for f in detector.update(record).findings]
    last = {finding.evidence["incident"]: finding for finding in (*online, *detector.finish())}
    offline = diagnose(run(table()))
    assert [f.evidence for f in offline] == [f.evidence for f in last.values()]
    assert [f.message for f in offline] == [f.message for f in last.values()]


@pytest.mark.parametrize(
    "signals",
    [
        pl.DataFrame(),
        pl.DataFrame({"step": []}),
        pl.DataFrame(
            {"step": pl.Series([], dtype=pl.Int64), "loss": pl.Series([], dtype=pl.Float32)}
        ),
        pl.DataFrame({"loss": [2.0, 2.1]}),
        pl.DataFrame({"step": [1, 2, 3]}),
        pl.DataFrame({"step": [1, 2, 3], "tokens_per_second": [5.0, 5.0, 5.0]}),
        pl.DataFrame({"step": [None, None], "loss": [2.0, 2.0]}),
        pl.DataFrame({"step": [1, 2], "loss": [None, None]}),
        pl.DataFrame({"step": [1, 2], "loss": ["2.0", "nan"]}),
    ],
    ids=["empty", "no-rows", "typed", "no-step", "no-signal", "other", "null-step", "null", "text"],
)
def test_a_table_with_nothing_to_judge_has_no_findings(signals):
    assert diagnose(run(signals)) == []


def test_columns_that_are_missing_are_not_judged():
    assert codes(diagnose(run(table().drop("grad_norm")))) == [("SPK001", 300), ("SPK002", 600)]
    signals = (
        table()
        .drop("loss")
        .with_columns(
            grad_norm=pl.when(pl.col("step").is_between(400, 405)).then(50.0).otherwise("grad_norm")
        )
    )
    assert codes(diagnose(run(signals))) == [("SPK001", 400)]


def test_nulls_are_values_that_were_not_logged():
    signals = table().with_columns(
        loss=pl.when(pl.col("step") % 5 == 2).then(None).otherwise("loss"),
        grad_norm=pl.when(pl.col("step") % 2 == 0).then(None).otherwise("grad_norm"),
        update_skipped=pl.lit(False),
    )
    assert codes(diagnose(run(signals))) == [("SPK001", 300), ("SPK002", 600)]


def test_single_precision_is_enough():
    signals = table().with_columns(pl.col("loss", "grad_norm").cast(pl.Float32))
    assert codes(diagnose(run(signals))) == [("SPK001", 300), ("SPK002", 600)]


def test_rewind_to_the_newest_checkpoint_that_may_be_used_before_the_onset():
    checkpoints = [
        CheckpointInfo(step=0, path="c/0"),
        CheckpointInfo(step=250, path="c/250", status="confirmed"),
        CheckpointInfo(step=298, path="c/298", status="quarantined"),
        CheckpointInfo(step=299, path="c/299"),  # the update of step 299 is in doubt
        CheckpointInfo(step=550, path="c/550"),
    ]
    spike, shift = diagnose(run(table(), checkpoints=tuple(checkpoints)))
    assert spike.evidence["last_healthy_step"] == 298
    assert spike.evidence["rewind_to_step"] == 250
    assert shift.evidence["rewind_to_step"] == 550
    assert shift.actions[0].startswith("rewind to step 550: the newest checkpoint before the onset")
    (_, shift) = diagnose(run(table(), checkpoints=(CheckpointInfo(step=700, path="c"),)))
    assert shift.evidence["rewind_to_step"] is None
    assert f"at or before step {shift.evidence['last_healthy_step']}" in shift.actions[0]


def test_a_finding_without_an_onset_keeps_its_evidence():
    finding = Finding(code="LOG001", name="grad-norm-not-recorded", severity="warning")
    assert with_checkpoints(finding, [1, 2]) is finding


def test_the_vocabulary_comes_from_the_specification():
    signals = table().with_columns(loss=pl.col("loss") + 7.5 * (pl.col("step") >= 600))
    spec = TrainSpec(architecture=ArchitectureSpec(vocab_size=50304))
    assert [f.code for f in diagnose(run(signals, spec=spec))] == ["SPK001", "SPK003"]
    assert [f.code for f in diagnose(run(signals))] == ["SPK001", "SPK002"]
    assert [f.code for f in diagnose(run(signals), vocab_size=50304)] == ["SPK001", "SPK003"]


def test_the_last_of_equal_steps_counts_and_rows_may_come_in_any_order():
    signals = table()
    stale = signals.filter(pl.col("step") > 800).with_columns(loss=pl.lit(9.0))
    shuffled = pl.concat([stale, signals.sample(fraction=1.0, shuffle=True, seed=1)])
    assert codes(diagnose(run(shuffled))) == [("SPK001", 300), ("SPK002", 600)]


def test_what_a_later_attempt_went_back_over_is_no_part_of_the_run():
    # Attempt 0 diverged from step 600 on; attempt 1 started again at 551 and has come to 700.
    first = table().with_columns(attempt=pl.lit(0))
    again = first.filter(pl.col("step").is_between(551, 700)).with_columns(
        attempt=pl.lit(1), loss=pl.col("loss") - 0.3 * (pl.col("step") >= 600)
    )
    both = pl.concat([first, again])
    assert codes(diagnose(run(both))) == [("SPK001", 300)]
    assert codes(diagnose(run(both.sort("step")))) == [("SPK001", 300)]


def test_the_attempt_is_in_the_place():
    signals = table().with_columns(attempt=(pl.col("step") > 500).cast(pl.Int32))
    assert [finding.place.attempt for finding in diagnose(run(signals))] == [0, 1]


def test_a_nan_says_when_the_loss_was_back():
    signals = table().with_columns(
        loss=pl.when(pl.col("step").is_between(100, 102)).then(math.nan).otherwise("loss")
    )
    found = diagnose(run(signals))
    assert codes(found) == [("SPK004", 100), ("SPK001", 300), ("SPK002", 600)]
    assert found[0].evidence["recovered_step"] == 103


def test_what_is_open_at_the_end_is_told_as_it_stands():
    (spike, shift) = diagnose(run(table(620)))
    assert (spike.code, shift.code) == ("SPK001", "SPK000")
    assert "not back when the data ended at step 620" in shift.message


def test_metrics_that_cannot_be_used_are_told_beside():
    found = diagnose(run(table().with_columns(grad_norm=pl.lit(0.0))))
    assert [finding.code for finding in found] == ["LOG001", "SPK001", "SPK002"]


def test_checkpoints_that_only_the_ledger_knows():
    """A loop that is not surefoot's keeps its checkpoints elsewhere."""
    events = tuple(
        Event(kind="checkpoint", step=step, data={"quarantine": reason})
        for step, reason in ((250, None), (290, "incident"), (500, None), (700, None))
    )
    found = diagnose(run(table(), events=events))
    assert [f.evidence["rewind_to_step"] for f in found] == [250, 500]

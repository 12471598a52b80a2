"""A run that goes back: what was told of steps that are undone does not count any more."""

import math
import random

import pytest

from surefoot.detect import SpikeDetector
from surefoot.records import StepRecord

Row = tuple[int, int, dict[str, float]]


def loss(step: int, noise: random.Random) -> float:
    return 3.0 + 4.0 * (1 + step / 20.0) ** -0.7 + noise.gauss(0.0, 0.02)


def told(rows: list[Row], **settings: object) -> list[tuple[int, int, str]]:
    detector = SpikeDetector(**settings)  # type: ignore[arg-type]
    found = []
    for attempt, step, values in rows:
        verdict = detector.update(StepRecord(step=step, attempt=attempt, values=values))
        found += [(attempt, step, finding.code) for finding in verdict.findings]
    return found


def test_the_same_fault_is_told_again_in_a_later_attempt() -> None:
    noise = random.Random(1)
    rows: list[Row] = []
    for attempt, steps in ((0, range(1, 1001)), (1, range(500, 1001))):
        for step in steps:
            norm = 100.0 * (3.0 if step >= 700 else 1.0) * math.exp(noise.gauss(0.0, 0.003))
            rows.append((attempt, step, {"loss": loss(step, noise), "param_norm": norm}))
    found = told(rows)
    assert [(attempt, code) for attempt, _, code in found] == [
        (0, "SPK000"),
        (0, "SPK002"),
        (1, "SPK000"),
        (1, "SPK002"),
    ]


def test_a_start_from_scratch_is_no_fault() -> None:
    noise = random.Random(2)
    rows: list[Row] = []
    for attempt, steps in ((0, range(1, 401)), (1, range(1, 301))):
        for step in steps:
            value = 4.0 + 6.8 * math.exp(-(step - 1) / 15.0) + noise.gauss(0.0, 0.02)
            rows.append((attempt, step, {"loss": value, "learning_rate": 3e-4}))
    assert told(rows, vocab_size=50304) == []


def test_what_a_lost_schedule_tainted_is_sound_again_before_it() -> None:
    noise = random.Random(3)
    rows: list[Row] = []

    def rate(step: int) -> float:
        return 3e-4 * min(1.0, step / 100) * (0.55 + 0.45 * math.cos(math.pi * step / 3000))

    for attempt, steps in ((0, range(1, 901)), (1, range(801, 830)), (2, range(701, 1400))):
        for step in steps:
            lost = attempt == 1
            values = {
                "loss": loss(step, noise) + (2.0 if step in (1300, 1301) else 0.0),
                "learning_rate": 3e-6 * (step - 800) if lost else rate(step),
            }
            rows.append((attempt, step, values))
    detector = SpikeDetector()
    findings = [
        finding
        for attempt, step, values in rows
        for finding in detector.update(
            StepRecord(step=step, attempt=attempt, values=values)
        ).findings
    ]
    assert [f.code for f in findings] == ["CKP001", "SPK000", "SPK001"]
    assert all("after_finding" not in f.evidence for f in findings[1:])
    assert findings[1].evidence["last_healthy_step"] == 1298


@pytest.mark.parametrize("batch", ["alternating", "random"])
def test_a_batch_that_varies_does_not_blind(batch: str) -> None:
    noise = random.Random(4)

    def size(step: int) -> float:
        return 256 + 64 * (step % 2) if batch == "alternating" else noise.gauss(256.0, 30.0)

    rows: list[Row] = [
        (0, step, {"loss": loss(step, noise) + 3.0 * (step >= 500), "batch_size": size(step)})
        for step in range(1, 900)
    ]
    assert next((step, code) for _, step, code in told(rows)) == (500, "SPK000")
    assert told(rows)[-1][2] in ("SPK002", "SPK003")


def test_a_rate_of_zero_for_a_skipped_update_is_no_lost_schedule() -> None:
    noise = random.Random(5)
    rows: list[Row] = []
    for step in range(1, 300):
        rate = 0.0 if step == 200 else 3e-4 * min(1.0, step / 100)
        rows.append((0, step, {"loss": loss(step, noise), "learning_rate": rate}))
    assert told(rows) == []


@pytest.mark.parametrize("drop", [0.1, 0.5])
def test_a_resume_just_before_a_step_of_the_schedule(drop: float) -> None:
    noise = random.Random(6)
    rows: list[Row] = []
    for attempt, steps in ((0, range(1, 1101)), (1, range(998, 1011))):
        for step in steps:
            rate = 3e-4 * min(1.0, step / 100) * (drop if step >= 1000 else 1.0)
            rows.append((attempt, step, {"loss": loss(step, noise), "learning_rate": rate}))
    assert told(rows) == []


def test_a_phase_that_changes_at_every_record_hides_no_divergence() -> None:
    noise = random.Random(7)
    rows: list[Row] = [
        (0, step, {"loss": loss(step, noise) + 8.0 * (step >= 500), "data_phase": step})
        for step in range(1, 900)
    ]
    assert told(rows, vocab_size=50304)

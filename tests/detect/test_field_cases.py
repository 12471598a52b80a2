"""What real troubles looked like, and what must be said of them, and what must not.

The inputs lie beside the checkout where surefoot is developed; each test skips where they do not.
Small inputs of the same kinds are made by the tests of each part.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from surefoot.detect import diagnose
from surefoot.readers import read_run
from surefoot.records import Finding
from surefoot.report import render_findings

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"no field cases at {CASES.name}/")


@cache
def told(name: str) -> tuple[Finding, ...]:
    (folder,) = CASES.glob(f"{name}-*")
    return tuple(diagnose(read_run(folder)))


def codes(name: str) -> list[str]:
    return [finding.code for finding in told(name)]


def words(findings: Iterable[Finding]) -> str:
    """All that a person reads, on one line."""
    return " ".join(render_findings(findings, width=10_000).split())


def one(name: str, code: str) -> Finding:
    (finding,) = (finding for finding in told(name) if finding.code == code)
    return finding


def test_01_fast_spike() -> None:
    assert codes("01") == ["SPK001"]
    finding = one("01", "SPK001")
    assert finding.evidence["onset_step"] == 31215
    assert finding.evidence["leading_signal"] == "grad_norm"
    assert finding.evidence["peak_step"] == 31219
    assert 31230 <= finding.evidence["recovered_step"] <= 31250
    assert finding.evidence["rewind_to_step"] in (None, 31200)
    said = words([finding])
    assert "no action: it came back by itself" in said
    assert not re.search(r"diverged|did not come back|seconds", said)


def test_03_fp16_spike_with_a_dead_gradient_norm() -> None:
    spike = one("03", "SPK000")
    assert spike.evidence["onset_interval"] == [29040, 29050]
    assert spike.evidence["peak_step"] == 29060
    assert {"LOG001", "LOG005"} <= set(codes("03"))  # dead norm; a counter that denies overflows
    said = words(told("03"))
    assert "not back when the data ended" in said
    assert not re.search(r"vanishing|no overflow", said)
    top = spike.evidence["causes"][0]
    assert top["cause"] in ("precision", "unknown")
    assert not top["cause"].startswith("data")


def test_08_weights_replaced_at_the_first_step() -> None:
    said = words(told("08"))
    assert "CKP003" in codes("08")
    assert "master" in said
    assert "were replaced" in said
    assert not re.search(r"rate too high|lower the (peak )?learning rate|warm-?up longer", said)
    assert not re.search(r"most spikes come back|bad batch", said)


def test_09_the_schedule_began_anew() -> None:
    finding = one("09", "CKP001")
    assert finding.severity == "error"
    assert finding.place.steps == (29005, 29005)  # the first record after the resume
    assert "factor of" in finding.message
    assert codes("09") == ["CKP001"]  # before the loss moves


def test_11_nan_in_the_gradient_first_and_a_masked_loss() -> None:
    finding = one("11", "SPK004")
    assert finding.evidence["leading_signal"] == "grad_norm"
    assert {"LOG003", "LOG006"} <= set(codes("11"))  # masked NaN; a rate that stands still
    said = words(told("11"))
    assert "the gradient norm was nan" in said
    assert "converged" not in said


def test_13_the_rate_runs_too_fast() -> None:
    finding = one("13", "SCH001")
    assert "4 times" in finding.message
    assert finding.place.steps is not None
    assert finding.place.steps[1] <= 100


def test_18_a_placeholder_is_no_loss() -> None:
    assert codes("18") == ["LOG002"]


def test_19_a_small_shift_that_did_not_come_back() -> None:
    finding = one("19", "SPK002")
    assert codes("19") == ["SPK002"]
    first, last = finding.evidence["onset_interval"]
    assert first <= 77_104
    assert last >= 77_088
    assert finding.severity == "error"
    assert abs(finding.evidence["peak_nats"] - 0.06) < 0.015


def test_21_a_creep_under_a_falling_rate() -> None:
    found = told("21")
    assert any(finding.code in ("SPK000", "SPK002", "SCH002") for finding in found)
    said = words(found)
    assert re.search(r"lm_head|head", said)
    assert "z-loss" in said
    assert "overfit" not in said


def test_23_the_loader_began_anew() -> None:
    finding = one("23", "CKP002")
    assert finding.place.steps == (25_000, 25_000)
    later = [f for f in told("23") if f.code.startswith("SPK")]
    assert all(f.evidence["after_finding"]["step"] == 25_000 for f in later)
    assert all(f.evidence["last_healthy_step"] < 25_000 for f in later)
    assert "rate too high" not in words(told("23"))


def test_24_nan_after_a_good_checkpoint() -> None:
    finding = one("24", "SPK004")
    assert finding.evidence["onset_interval"][0] in (3000, 3001)
    assert finding.evidence["rewind_to_step"] == 3000


def test_31_a_planned_rewarm_is_healthy() -> None:
    assert [f for f in told("31") if f.severity != "info"] == []


def test_34_a_repeated_skip() -> None:
    said = words(told("34"))
    assert "3 batches had been skipped" in said
    assert not re.search(r"diverg|dead gradient", said)


@pytest.mark.parametrize("name", ["01", "03", "08", "11", "19", "23", "24"])
def test_no_confident_cause_from_little(name: str) -> None:
    """With a loss curve, perhaps a gradient norm, nothing is sure but what was impossible."""
    for finding in told(name):
        if not finding.code.startswith("SPK"):
            continue
        json.dumps(finding.evidence, allow_nan=False)
        for cause in finding.evidence["causes"]:
            impossible = any("no update" in clause for clause in cause["supports"])
            certain = "after_finding" in finding.evidence
            if cause["cause"] != "unknown" and not impossible and not certain:
                assert cause["share"] <= 0.65, (name, cause)

"""What could not be judged is said."""

import polars as pl
import pytest

from surefoot.detect import not_checked
from surefoot.records import Run


def run(records: int, **columns: object) -> Run:
    steps = list(range(1, records + 1))
    table = {"step": steps, "loss": [3.0] * records, **columns}
    return Run(name="r", signals=pl.DataFrame(table))


def codes(run: Run) -> list[str]:
    return [entry["code"] for entry in not_checked(run)]


@pytest.mark.parametrize(
    ("records", "code"), [(12, "SPK000"), (20, "SPK002"), (95, "SPK002"), (150, "SPK003")]
)
def test_a_short_run_is_told_to_be_too_short(records: int, code: str) -> None:
    found = {entry["code"]: entry["needs"] for entry in not_checked(run(records))}
    assert list(found) == [code, "SPK005"]
    assert f"this run has {records}" in found[code]


def test_signals_that_would_warn_are_named_when_absent() -> None:
    told = not_checked(run(300, grad_norm=[0.0] * 300, log_z=[1.0] * 300))[-1]
    # A gradient norm of exactly 0 is not recorded; the log-sum-exp is there.
    assert told["code"] == "SPK005"
    assert "grad_norm" in told["needs"]
    assert "log_z" not in told["needs"]


def test_a_run_with_every_signal_is_checked_wholly() -> None:
    names = ("grad_norm", "attention_logit_max", "log_z", "adam_rms", "update_rms")
    assert codes(run(300, **{name: [1.0] * 300 for name in names})) == []


def test_a_run_without_a_loss() -> None:
    empty = Run(name="r", signals=pl.DataFrame({"step": [1, 2], "grad_norm": [1.0, 1.0]}))
    assert codes(empty)[0] == "SPK001"
    assert codes(Run(name="r", signals=pl.DataFrame())) == ["SPK001", "SPK005"]

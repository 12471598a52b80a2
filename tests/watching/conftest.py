"""A loop of a stranger, and a detector that keeps what it is given."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot.records import Finding, StepRecord, Verdict


class Recorder:
    """A Detector that keeps the records and tells a finding at every fifth step."""

    name = "recorder"

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.seen = 0

    def update(self, record: StepRecord) -> Verdict:
        self.records.append(record)
        self.seen += 1
        finding = Finding(code="SPK005", name="early-warning", severity="warning")
        findings = (finding,) if record.step % 5 == 0 else ()
        return Verdict(step=record.step, status="healthy", findings=findings)

    def finish(self) -> tuple[Finding, ...]:
        return (Finding(code="SPK000", name="incident-open", severity="warning"),)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _model() -> nn.Module:
    return nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 12))


@pytest.fixture
def model() -> nn.Module:
    return _model()


def _loss(model: nn.Module, rows: int = 8) -> Tensor:
    tokens = torch.randint(0, 12, (rows,))
    return nn.functional.cross_entropy(model(tokens), (tokens + 1) % 12)


@pytest.fixture(scope="session")
def loss_of() -> Callable[..., Tensor]:
    return _loss

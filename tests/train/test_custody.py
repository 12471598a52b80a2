"""Which findings cost a checkpoint its trust."""

import pytest

from surefoot.records import Finding
from surefoot.train.custody import onset


def finding(**evidence: object) -> Finding:
    return Finding(code="SPK000", name="incident-open", severity="warning", evidence=evidence)


@pytest.mark.parametrize(
    ("evidence", "first"),
    [
        ({"onset_interval": [40, 42]}, 40),
        ({"onset_interval": [40, 42], "judged_by": "loss"}, 40),
        # A signal that moved while the loss did not: work is not thrown away for it.
        ({"onset_interval": [40, 42], "judged_by": "update_rms"}, None),
        ({}, None),
    ],
)
def test_only_an_incident_of_the_loss_reaches_back(
    evidence: dict[str, object], first: int | None
) -> None:
    assert onset(finding(**evidence)) == first


def test_a_contradiction_that_is_certain_reaches_back_and_a_warning_does_not() -> None:
    evidence = {"onset_interval": [40, 40]}
    restarted = Finding(code="CKP001", name="r", severity="error", evidence=evidence)
    jumped = Finding(code="SCH003", name="j", severity="warning", evidence=evidence)
    assert (onset(restarted), onset(jumped)) == (40, None)

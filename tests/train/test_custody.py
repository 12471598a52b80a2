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

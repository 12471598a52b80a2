"""Which checkpoints are trusted: provisional, confirmed or quarantined.

A checkpoint is confirmed once ``confirm_after`` further steps passed and no finding's onset
interval reaches back to it. While an incident is open nothing is confirmed and every save is
quarantined; the checkpoints from the start of an onset interval on are quarantined when it becomes
known.
"""

from collections.abc import Mapping
from typing import Any

from surefoot.checkpoint import CheckpointStore
from surefoot.records import Finding, Verdict


class Custody:
    """Keeps the statuses of a store in step with the detector.

    The store reads its folder at every question, so what is still provisional is remembered here
    and an ordinary step asks it nothing.

    Args:
        store: the run's checkpoints.
        confirm_after: healthy steps after which a checkpoint is confirmed.
    """

    def __init__(self, store: CheckpointStore, confirm_after: int) -> None:
        self._store = store
        self._confirm_after = confirm_after
        self._provisional: list[int] = []
        self._incident_open = False

    def saved(self, step: int, quarantine: str | None) -> None:
        """A checkpoint was written."""
        if quarantine is None:
            self._provisional.append(step)

    def judge(self, verdict: Verdict) -> None:
        """Take up what the detector said of a step."""
        self._incident_open = verdict.status == "incident"
        for finding in verdict.findings:
            first = onset(finding)
            if first is not None:
                self._distrust(first)
        due = verdict.step - self._confirm_after
        if not self._incident_open and self._provisional and self._provisional[0] <= due:
            self._store.confirm(due)
            self._provisional = [step for step in self._provisional if step > due]

    def take_up(self) -> None:
        """After a resume: find out what is still provisional."""
        infos = self._store.infos()
        self._provisional = [info.step for info in infos if info.status == "provisional"]

    @property
    def quarantine(self) -> str | None:
        """The reason to give with a save made now; None while all is well."""
        return "incident" if self._incident_open else None

    def state_dict(self) -> dict[str, Any]:
        """State that the store does not hold, as JSON."""
        return {"incident_open": self._incident_open}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._incident_open = state["incident_open"]

    def _distrust(self, first: int) -> None:
        for info in self._store.infos():
            if info.step >= first and info.status != "quarantined":
                self._store.quarantine(info.step, "incident")
        self._provisional = [step for step in self._provisional if step < first]


def onset(finding: Finding) -> int | None:
    """First step of the finding's onset interval, if it has one.

    None for a warning and for an incident of a signal other than the loss: one that proves wrong
    must not cost the work that was saved since.
    """
    doubtful = finding.severity != "error" and not finding.code.startswith("SPK")
    if doubtful or finding.evidence.get("judged_by", "loss") != "loss":
        return None
    interval = finding.evidence.get("onset_interval")
    return int(interval[0]) if interval else None

"""``checkpoints/index.json``: the status of each checkpoint, also for tools without torch.

The folders are the truth and this file can be lost: it is then rebuilt with every checkpoint
provisional. A quarantine is also in the checkpoint's own manifest, so that it cannot get lost.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surefoot.checkpoint.folder import scan
from surefoot.checkpoint.manifest import Manifest
from surefoot.records import CheckpointInfo
from surefoot.runs.durable import write_atomic

FORMAT = 1
INDEX = "index.json"

SIGNAL = "signal"
"""Reason of a checkpoint made in a healthy state because the run was asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A finished checkpoint: its folder, its manifest and whether it was confirmed."""

    folder: Path
    manifest: Manifest
    confirmed: bool = False

    @property
    def step(self) -> int:
        """Updates made when it was taken."""
        return self.manifest.step

    @property
    def status(self) -> str:
        """``provisional``, ``confirmed`` or ``quarantined``, of which the last prevails."""
        if self.manifest.quarantine is not None:
            return "quarantined"
        return "confirmed" if self.confirmed else "provisional"

    @property
    def may_resume(self) -> bool:
        """Whether a run may go on from it, if it is intact."""
        return self.manifest.quarantine in (None, SIGNAL)

    @property
    def info(self) -> CheckpointInfo:
        """The same as a record."""
        return CheckpointInfo(
            step=self.step,
            path=str(self.folder),
            status=self.status,
            reason=self.manifest.quarantine,
        )


def known_checkpoints(folder: Path) -> list[Known]:
    """The finished checkpoints in ``folder``, by step."""
    confirmed = read_confirmed(folder)
    return [
        Known(
            folder=path,
            manifest=manifest,
            confirmed=(manifest.step, manifest.identity) in confirmed,
        )
        for path, manifest in scan(folder)[0]
    ]


def read_confirmed(folder: Path) -> set[tuple[int, str]]:
    """(step, identity) of the checkpoints the index calls confirmed; none if it is lost or torn.

    The identity is that of the manifest: a confirmation does not pass on to another save of the
    same step, made after a rewind.
    """
    try:
        index = json.loads((folder / INDEX).read_bytes())
        if index["format"] != FORMAT:
            return set()
        return {
            (int(entry["step"]), str(entry["sha256"]))
            for entry in index["checkpoints"]
            if entry["status"] == "confirmed"
        }
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def write_index(folder: Path, checkpoints: Iterable[Known]) -> None:
    """Write the index, atomically."""
    entries = [
        {
            "step": known.step,
            "path": known.folder.name,
            "status": known.status,
            "reason": known.manifest.quarantine,
            "sha256": known.manifest.identity,
        }
        for known in checkpoints
    ]
    text = json.dumps({"format": FORMAT, "checkpoints": entries}, indent=1)
    write_atomic(folder / INDEX, (text + "\n").encode())

"""From which checkpoint to go on: the newest one that is whole and holds a healthy state."""

from collections.abc import Callable
from pathlib import Path

from surefoot.checkpoint.folder import scan
from surefoot.checkpoint.index import Known, known_checkpoints
from surefoot.checkpoint.manifest import NewerFormatError
from surefoot.checkpoint.ranks import Ranks
from surefoot.checkpoint.reading import verify
from surefoot.errors import CheckpointError


def newest_intact(folder: Path, before: int) -> int | None:
    """The newest step before ``before`` that can be gone on from; reads the files it judges."""
    for known in reversed(known_checkpoints(folder)):
        if known.step < before and known.may_resume and _damage(known) is None:
            return known.step
    return None


def resumable(folder: Path, report: Callable[[str], None] | None) -> int | None:
    """The newest step that can be gone on from.

    Args:
        folder: the checkpoints.
        report: told of each one passed over because it is damaged.

    Raises:
        CheckpointError: if one on the way was written by a newer surefoot.
    """
    unreadable = {entry.step: entry.error for entry in scan(folder)[1]}
    candidates = {known.step: known for known in known_checkpoints(folder) if known.may_resume}
    for step in sorted({*unreadable, *candidates}, reverse=True):
        error = unreadable.get(step) or _damage(candidates[step])
        if error is None:
            return step
        if isinstance(error, NewerFormatError):
            raise error
        if report is not None:
            report(str(error))
    return None


def _damage(known: Known) -> CheckpointError | None:
    try:
        verify(known.folder, known.manifest, Ranks(alone=True))
    except CheckpointError as error:
        return error
    return None

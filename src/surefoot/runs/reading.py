"""Reading a run folder, whatever state it is in: while it is written to, killed, torn, read-only.

Files are taken by their names, one by one, and checked; what cannot be used is reported in
``Run.problems`` and left out.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.errors import RunFolderError
from surefoot.records import CheckpointInfo, Run, TrainSpec
from surefoot.runs import gaps, journal, ledger, segments
from surefoot.runs.places import NAME as PLACES
from surefoot.runs.places import Places, read_places
from surefoot.runs.spec import ENVIRONMENT, SPEC, decode_spec, read_environment
from surefoot.runs.tables import measured, to_frame, unite, winning
from surefoot.runs.trim import (
    ATTEMPTS,
    KNOWN,
    SIGNALS,
    TORN,
    attempt_folders,
    foreign_attempts,
)

if TYPE_CHECKING:
    import polars

CHECKPOINTS = "checkpoints"
_INDEX = "index.json"
_MANIFEST = "manifest.json"
_STEP = re.compile(r"step-(\d{9,})")


def open_run(path: Path | str) -> Run:
    """Read a run folder.

    Args:
        path: the folder of a run, finished, killed or going on.

    Returns:
        The run; ``signals`` is the winning history, sorted by step, each step once: columns
        ``step``, ``attempt``, scalars by name, and list columns named as ``grad_norm@places``.

    Raises:
        RunFolderError: if it is no run folder, or a newer surefoot wrote it. Torn, damaged and
            foreign files do not raise: they are in ``problems``, and so are missing rows.
    """
    folder = _check(path)
    problems: list[str] = []
    # The ledger before the rows that it says are there. Then the journal before the segments: what
    # is compacted meanwhile is in a segment too, not in neither.
    events = ledger.read_ledger(folder / ledger.NAME)
    frame = winning(_rows(folder, problems))
    problems += gaps.tell(gaps.missing(frame["step"], _reached(folder, events)))
    problems += foreign_attempts(folder)
    problems += events.problems
    problems += ledger.misread_findings(events.events)
    return Run(
        name=folder.resolve().name,
        spec=_spec(folder, problems),
        environment=_environment(folder, problems),
        signals=measured(frame),
        places=_places(folder, problems),
        events=events.events,
        checkpoints=_checkpoints(folder / CHECKPOINTS, problems),
        problems=tuple(problems),
        path=str(path),
    )


def all_attempts(path: Path | str) -> "polars.DataFrame":
    """Every row that was ever written, those of abandoned attempts too.

    Returns:
        As ``Run.signals``, but sorted by (attempt, step), which is unique.

    Raises:
        RunFolderError: as :func:`open_run`.
    """
    folder = _check(path)
    problems: list[str] = []
    # The current rows first: what a resume moves meanwhile is then in attempts/ too.
    frames = [_rows(folder, problems)]
    for number in attempt_folders(folder):
        frames += segments.read_segments(folder / ATTEMPTS / str(number), (TORN,)).frames
    return measured(unite(frames))


def _check(path: Path | str) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise RunFolderError(f"no run folder at {path}: expected a folder with {SPEC} in it")
    if not any((folder / name).exists() for name in (SPEC, SIGNALS, ledger.NAME)):
        raise RunFolderError(f"{path} is not a run folder: it has no {SPEC}")
    _spec(folder, [])  # Before anything else is read in a format that may be another.
    return folder


def _rows(folder: Path, problems: list[str]) -> "polars.DataFrame":
    here = folder / SIGNALS
    written = journal.read_journal(here / journal.NAME)
    found = segments.read_segments(here, KNOWN)
    if written.problem is not None:
        behind = "; what lies behind is left out" if written.size else ""
        problems.append(f"{SIGNALS}/{journal.NAME} {written.problem}{behind}")
    problems += [f"{SIGNALS}/{problem}" for problem in found.problems]
    return unite([*found.frames, to_frame(written.rows)])


def _reached(folder: Path, events: ledger.LedgerContents) -> int:
    """The step through which rows must be there; 0 while rows are being moved away."""
    newest = ledger.last_attempt(events.events)
    # A resume is under way, or was killed, before it is in the ledger: it may be at any step.
    return 0 if newest in attempt_folders(folder) else gaps.reached(events.events, newest)


def _spec(folder: Path, problems: list[str]) -> TrainSpec:
    try:
        return decode_spec((folder / SPEC).read_bytes(), str(folder / SPEC))
    except (OSError, ValueError) as error:
        problems.append(f"{SPEC} cannot be read: {error}")
        return TrainSpec()


def _environment(folder: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return read_environment(folder)
    except (OSError, ValueError) as error:
        problems.append(f"{ENVIRONMENT} cannot be read: {error}")
        return {}


def _places(folder: Path, problems: list[str]) -> Places:
    try:
        return read_places(folder / SIGNALS / PLACES)
    except (OSError, ValueError) as error:
        problems.append(f"{SIGNALS}/{PLACES} cannot be read: {error}")
        return {}


def _checkpoints(folder: Path, problems: list[str]) -> tuple[CheckpointInfo, ...]:
    if not folder.is_dir():
        return ()
    index = _index(folder / _INDEX, problems)
    found = []
    for path in sorted(folder.iterdir()):
        match = _STEP.fullmatch(path.name)
        if match and (path / _MANIFEST).is_file():
            step = int(match[1])
            known = index.get(step, {})
            status, reason = known.get("status"), known.get("reason")
            quarantine = _quarantine(path / _MANIFEST)
            if quarantine is not None:  # prevails: an index may be lost or older
                status, reason = "quarantined", quarantine
            found.append(
                CheckpointInfo(
                    step=step,
                    path=str(path),
                    status=status if isinstance(status, str) else "provisional",
                    reason=reason if isinstance(reason, str) else None,
                )
            )
        elif match:
            problems.append(f"{CHECKPOINTS}/{path.name} has no {_MANIFEST}; ignored")
        elif path.name != _INDEX and not path.name.startswith("."):  # those are being made
            problems.append(f"{CHECKPOINTS}/{path.name} is no committed checkpoint; ignored")
    return tuple(sorted(found, key=lambda info: info.step))


def _quarantine(manifest: Path) -> str | None:
    """The reason a checkpoint itself gives for not being trusted, if it does."""
    try:
        reason = json.loads(manifest.read_bytes()).get("quarantine")
    except (OSError, ValueError, AttributeError):
        return None  # for the checkpoint part to refuse, when somebody loads it
    return reason if isinstance(reason, str) else None


def _index(path: Path, problems: list[str]) -> dict[int, dict[str, Any]]:
    """The entry of each step; none if the index is missing, torn or of another kind."""
    try:
        entries = json.loads(path.read_bytes())["checkpoints"]
        return {int(entry["step"]): dict(entry) for entry in entries}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        problems.append(f"{CHECKPOINTS}/{path.name} cannot be read: {error!r}")
        return {}

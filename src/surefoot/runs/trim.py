"""Going back to step k: the rows behind it move to ``attempts/N/``, at no instant in no place.

N is the attempt that ended. Until the next one has begun (its event ``resumed`` is in the ledger),
a trim may be repeated, at any step: rows that an interrupted one moved are taken into account, so
the last one decides, whatever went before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.errors import RunFolderError
from surefoot.runs import gaps, journal, ledger, segments
from surefoot.runs.durable import fsync_dir, make_dir, remove, storage_errors, write_atomic
from surefoot.runs.layout import Row
from surefoot.runs.places import NAME as PLACES
from surefoot.runs.tables import KEY, to_frame, unite, winning

if TYPE_CHECKING:
    import polars

SIGNALS = "signals"
ATTEMPTS = "attempts"
TORN = "journal.torn"
"""In ``attempts/N/``: what could not be read of the journal, as it was."""

KNOWN = (journal.NAME, PLACES)
"""What lies in ``signals/`` beside the segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What a trim found and did.

    Attributes:
        ended: the attempt that ended.
        journal_rows: rows that the journal is left with.
        rows_moved: rows in ``attempts/N/`` now.
        last_step: the newest step that was kept; None if no row was.
        torn_bytes: bytes of the journal that could not be read.
        problems: what could not be used and which rows are missing, a sentence each.
    """

    ended: int
    journal_rows: tuple[Row, ...]
    rows_moved: int
    last_step: int | None
    torn_bytes: int
    problems: tuple[str, ...]


def trim(folder: Path, step: int, attempt: int) -> Trimmed:
    """Keep the rows through ``step`` in ``signals/``, and move the others to ``attempts/N/``.

    The caller holds the lock of the run.

    Args:
        folder: the run folder.
        step: the newest step to keep.
        attempt: the newest attempt that the ledger knows.

    Raises:
        RunFolderError: if a file is where the rows are to be moved.
        StorageError: if the disk is full; no row is lost then, and a repetition goes on.
    """
    here = folder / SIGNALS
    written = journal.read_journal(here / journal.NAME)
    found = segments.read_segments(here, KNOWN)
    here_rows = unite([*found.frames, to_frame(written.rows)])
    # The ledger knows, unless somebody deleted it.
    in_rows = here_rows.select("attempt").max().to_series().drop_nulls()
    ended = max([attempt, *attempt_folders(folder), *in_rows])
    there = folder / ATTEMPTS / str(ended)
    moved = segments.read_segments(there, (TORN,))
    for path in (*found.temporary, *moved.temporary):
        remove(path)
    segments.discard(here, found.covered)
    segments.discard(there, moved.covered)
    if written.problem is not None:
        _keep_torn(here / journal.NAME, written.good_bytes, there)

    pool = unite([here_rows, *moved.frames])
    lost = _behind(pool, step)
    # 1. What is lost is there before it goes here ...
    target = _move(lost, there) if len(lost) else None
    # 2. ... what an earlier trim moved too far comes back ...
    back = _through(pool, step).join(here_rows, on=list(KEY), how="anti")
    if len(back):
        segments.commit(here, back, before=None, after=None)
    # 3. ... and the history is cut from its end, so that at each instant it has no gap.
    in_segments = unite(found.frames)
    kept = _not_in(in_segments, [row for row in written.rows if row.step <= step])
    if written.problem is not None or len(kept) < len(written.rows):
        write_atomic(here / journal.NAME, journal.encode(kept))
    _cut_segments(here, found.good, step)
    for bad in (segment for segment in found.bad if segment.last > step):
        _set_aside(bad, there)
    segments.discard(there, [s for s, _ in moved.good if target is None or s != target])

    through = _through(pool, step)
    torn = there / TORN
    return Trimmed(
        ended=ended,
        journal_rows=tuple(kept),
        rows_moved=len(lost),
        last_step=int(through["step"].max()) if len(through) else None,  # type: ignore[arg-type]
        torn_bytes=torn.stat().st_size if torn.exists() else 0,
        problems=(
            *found.problems,
            *moved.problems,
            *(() if written.problem is None else (f"journal {written.problem}",)),
            *foreign_attempts(folder),
            *gaps.tell(gaps.missing(winning(through)["step"], step)),
        ),
    )


def attempt_folders(folder: Path) -> list[int]:
    """The numbers N of ``attempts/N/``, in order."""
    return sorted(number for number in _numbered(folder) if number <= ledger.LAST_ATTEMPT)


def foreign_attempts(folder: Path) -> tuple[str, ...]:
    """What cannot be in the place of ``attempts/`` and its folders, a sentence each."""
    if (folder / ATTEMPTS).exists() and not (folder / ATTEMPTS).is_dir():
        return (f"{ATTEMPTS} is no folder; ignored",)
    beyond = sorted(number for number in _numbered(folder) if number > ledger.LAST_ATTEMPT)
    return tuple(f"{ATTEMPTS}/{number}: no run has that attempt; ignored" for number in beyond)


def _numbered(folder: Path) -> list[int]:
    if not (folder / ATTEMPTS).is_dir():
        return []
    names = [path.name for path in (folder / ATTEMPTS).iterdir() if path.is_dir()]
    # Other spellings of a number ("007") name no folder that this code would look into.
    return [int(name) for name in names if name.isdecimal() and str(int(name)) == name]


def _through(frame: "polars.DataFrame", step: int) -> "polars.DataFrame":
    import polars as pl

    return frame.filter(pl.col("step") <= step)


def _behind(frame: "polars.DataFrame", step: int) -> "polars.DataFrame":
    import polars as pl

    return frame.filter(pl.col("step") > step)


def _make(there: Path) -> None:
    for path in (there.parent, there):
        if path.exists() and not path.is_dir():
            raise RunFolderError(
                f"{path} is no folder, and rows of an attempt that ended are to be moved there: "
                "move it away, then go on with --resume"
            )
        make_dir(path)


def _move(lost: "polars.DataFrame", there: Path) -> segments.Segment:
    _make(there)
    return segments.commit(there, lost, before=None, after=None)


def _keep_torn(path: Path, start: int, there: Path) -> None:
    data = path.read_bytes()[start:] if path.exists() else b""
    if data:
        _make(there)
        write_atomic(there / TORN, data)


def _not_in(frame: "polars.DataFrame", rows: Sequence[Row]) -> list[Row]:
    """The rows of a journal that are not in ``frame`` too."""
    both = to_frame(rows).join(frame, on=list(KEY), how="semi")
    committed = set(both.select(KEY).iter_rows())
    return [row for row in rows if (row.attempt, row.step) not in committed]


def _cut_segments(
    here: Path, good: "Sequence[tuple[segments.Segment, polars.DataFrame]]", step: int
) -> None:
    for segment, frame in sorted(good, key=lambda pair: pair[0], reverse=True):
        if segment.last <= step:
            continue
        kept = _through(frame, step)
        if len(kept):
            segments.commit(here, kept, before=None, after=None)
        remove(segment.path)
        fsync_dir(here)


def _set_aside(bad: segments.Segment, there: Path) -> None:
    """Take a file that cannot be read out of the way of new rows, under a name no row will take."""
    _make(there)
    target = there / (bad.path.name + segments.SET_ASIDE)
    with storage_errors(target):
        bad.path.replace(target)
    fsync_dir(there)
    fsync_dir(bad.path.parent)

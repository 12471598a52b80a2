"""Writing a run folder: create it, append rows, make them durable, resume it."""

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from surefoot.errors import RunFolderError, StorageError
from surefoot.records import Event, StepRecord, TrainSpec
from surefoot.runs import journal, ledger, segments
from surefoot.runs.durable import (
    REPEAT,
    TEMPORARY,
    fsync_dir,
    make_dir,
    storage_errors,
    way_on,
    write_atomic,
)
from surefoot.runs.layout import Row
from surefoot.runs.lock import Lock
from surefoot.runs.places import NAME as PLACES
from surefoot.runs.places import Places, extend, only_renamed, read_places, write_places
from surefoot.runs.spec import read_spec, write_environment, write_spec
from surefoot.runs.tables import to_frame
from surefoot.runs.trim import SIGNALS, trim

COMPACT_ROWS = 512
"""Rows after which the journal becomes a segment, if no ``flush`` came before."""


class RunWriter:
    """The one writer of a run folder; made by :meth:`create` or :meth:`resume`.

    ::

        with RunWriter.create(Path("runs/mine"), spec, environment, meter.places) as writer:
            writer.append(record)            # there after kill -9
            writer.flush()                   # there after a power cut: now commit a checkpoint
            writer.ledger.append("checkpoint", step=record.step)

    **Order:** ``flush()``, then the checkpoint. So no checkpoint outruns its rows.

    Attributes:
        folder: the run folder.
        attempt: 0 for the first start of the run, one more after each resume.
        ledger: where findings and actions are recorded. ``started`` and ``resumed`` are there
            already: the latter is what makes an attempt begin.
        last_step: step of the newest row; the next one must be later.
        problems: what :meth:`resume` found in the folder, a sentence each: torn or damaged files,
            missing rows, and behind them what its caller had found. The event ``resumed`` has them.
        rows_moved: rows behind the step of the resume, in ``attempts/`` now.
    """

    def __init__(
        self,
        folder: Path,
        lock: Lock,
        *,
        attempt: int,
        last_step: int,
        rows: Sequence[Row],
        places: Places,
        compact_rows: int,
        merge_bytes: int,
        problems: tuple[str, ...] = (),
        rows_moved: int = 0,
    ) -> None:
        self.folder = folder
        self.attempt = attempt
        self.last_step = last_step
        self.problems = problems
        self.rows_moved = rows_moved
        self.ledger = ledger.Ledger(folder / ledger.NAME, attempt)
        self._lock = lock
        self._signals = folder / SIGNALS
        self._journal = journal.Journal(self._signals / journal.NAME, rows)
        self._places = places
        self._compact_rows = compact_rows
        self._merge_bytes = merge_bytes
        self._closed = False

    @classmethod
    def create(
        cls,
        folder: Path,
        spec: TrainSpec,
        environment: Mapping[str, Any],
        places: Mapping[str, Sequence[str]],
        *,
        compact_rows: int = COMPACT_ROWS,
        merge_bytes: int = segments.MERGE_BYTES,
    ) -> "RunWriter":
        """Make a new run folder, wholly or not at all, with ``started`` in its ledger.

        Args:
            folder: must not exist; its parents are made.
            spec: what the run is asked to do, with sources.
            environment: versions, devices, flags, git commit; JSON values.
            places: for each per-place signal, the names in the order of its lists.
            compact_rows: rows after which the journal becomes a segment without a ``flush``.
            merge_bytes: about how large segments grow by merging.

        Raises:
            RunFolderError: if ``folder`` exists.
            StorageError: if the disk is full or refuses to write.
        """
        folder = Path(folder)
        with way_on(REPEAT):
            lock, known = _new(folder, spec, environment, places)
        try:
            return cls(
                folder,
                lock,
                attempt=0,
                last_step=0,
                rows=(),
                places=known,
                compact_rows=compact_rows,
                merge_bytes=merge_bytes,
            )
        except Exception:
            lock.release()
            raise

    @classmethod
    def resume(
        cls,
        folder: Path,
        step: int,
        places: Mapping[str, Sequence[str]],
        *,
        problems: Sequence[str] = (),
        compact_rows: int = COMPACT_ROWS,
        merge_bytes: int = segments.MERGE_BYTES,
    ) -> "RunWriter":
        """Go on after ``step``: a new attempt, whose first row is of a later step.

        Rows behind ``step`` move to ``attempts/N/``, N the attempt that ended. A torn end of the
        journal or the ledger is cut off. What was found and done is in the event ``resumed``.
        Killed at any instant and repeated, also at another step, it ends in the same folder.

        Args:
            folder: a run folder.
            step: the step whose state is taken up; 0 = from the start.
            places: as in :meth:`create`; a list may have become longer at its end.
            problems: what the caller found itself, e.g. damaged checkpoints that it passed over;
                recorded behind those that are found here.
            compact_rows: as in :meth:`create`.
            merge_bytes: as in :meth:`create`.

        Raises:
            RunFolderError: if it is no run folder, of a newer format, being written by another
                trainer, or the run of a model with other places; or if a file is in the place of
                ``attempts/``.
            StorageError: if the disk is full or refuses to write; no row is lost then.
        """
        folder = Path(folder)
        if step < 0:
            raise ValueError(f"expected a step of 0 or more, got {step}")
        read_spec(folder)
        lock = Lock(folder)
        try:
            known, misread = _known_places(folder / SIGNALS / PLACES, places)
            united = extend(known, places)
            events = ledger.read_ledger(folder / ledger.NAME)
            trimmed = trim(folder, step, ledger.last_attempt(events.events))
            ledger.repair(folder / ledger.NAME, trimmed.ended)
            if united != known or misread:
                write_places(folder / SIGNALS / PLACES, united)
            writer = cls(
                folder,
                lock,
                attempt=trimmed.ended + 1,
                last_step=step,
                rows=trimmed.journal_rows,
                places=united,
                compact_rows=compact_rows,
                merge_bytes=merge_bytes,
                problems=(*misread, *trimmed.problems, *events.problems, *problems),
                rows_moved=trimmed.rows_moved,
            )
        except Exception:
            lock.release()
            raise
        try:
            writer.ledger.append(
                "resumed",
                step=step,
                rows_moved=trimmed.rows_moved,
                last_row=trimmed.last_step,
                torn_bytes=trimmed.torn_bytes,
                problems=list(writer.problems),
            )
        except Exception:
            writer._let_go()
            raise
        return writer

    def append(self, record: StepRecord) -> None:
        """Write one step's signals to the journal, with one unbuffered write.

        Raises:
            ValueError: if the record is not the next one of this attempt, or a list has another
                length than the places of its signal.
            StorageError: if the disk is full; what was appended before is intact.
        """
        if record.attempt != self.attempt:
            raise ValueError(f"expected a record of attempt {self.attempt}, got {record.attempt}")
        if record.step <= self.last_step:
            raise ValueError(f"expected a step after {self.last_step}, got {record.step}")
        for name, values in record.places.items():
            if len(values) != len(self._places.get(name, ())):
                raise ValueError(
                    f"signal {name!r}: expected one value for each of "
                    f"{len(self._places.get(name, ()))} places (see set_places), got {len(values)}"
                )
        self._journal.append(record)
        self.last_step = record.step
        if len(self._journal.rows) >= self._compact_rows:
            self._compact()

    def flush(self) -> None:
        """Make every appended row durable, and readable by plain polars: the journal empties.

        Returns once the rows outlive a power cut; call it before committing a checkpoint.

        Raises:
            StorageError: if the disk is full; the rows stay in the journal then.
        """
        self._journal.sync()
        if self._journal.rows:
            self._compact()

    def set_places(self, places: Mapping[str, Sequence[str]]) -> None:
        """Name the places of further signals, or further places at the end of a list, durably.

        Raises:
            RunFolderError: if a known place gets another name.
            StorageError: if the disk is full; the names are as they were.
        """
        united = extend(self._places, places)
        if united != self._places:
            write_places(self._signals / PLACES, united)
            self._places = united

    def close(self) -> None:
        """Flush, and let the next writer in; calling it twice does no harm."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._let_go()

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A disk that is full is not to hide the error that ended the block.
        with suppress(*(() if kind is None else (StorageError,))):
            self.close()

    def _let_go(self) -> None:
        self._closed = True
        self._journal.close()
        self.ledger.close()
        self._lock.release()

    def _compact(self) -> None:
        segments.commit(self._signals, to_frame(self._journal.rows))
        # Only now: until here a crash leaves the rows in both, and reading takes each once.
        self._journal.reset()
        segments.merge_newest(self._signals, self._merge_bytes)


def _new(
    folder: Path,
    spec: TrainSpec,
    environment: Mapping[str, Any],
    places: Mapping[str, Sequence[str]],
) -> tuple[Lock, Places]:
    """Make a locked run folder under another name, then rename it; wholly or not at all."""
    if os.path.lexists(folder):
        raise _taken(folder)
    make_dir(folder.parent)
    _sweep_drafts(folder)
    known = extend({}, places)
    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}")
    make_dir(draft)
    lock = None
    try:
        lock = Lock(draft)
        _fill(draft, spec, environment, known)
        with storage_errors(folder):
            _rename_new(draft, folder)
        fsync_dir(folder.parent)
    except Exception:
        if lock is not None:
            lock.release()
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return lock, known


def _taken(folder: Path) -> RunFolderError:
    return RunFolderError(f"{folder} exists: give --resume to go on with it, or another --name")


def _fill(draft: Path, spec: TrainSpec, environment: Mapping[str, Any], places: Places) -> None:
    """Everything a run folder needs to be opened and resumed."""
    make_dir(draft / SIGNALS)
    write_spec(draft, spec)
    write_environment(draft, environment)
    write_places(draft / SIGNALS / PLACES, places)
    write_atomic(draft / SIGNALS / journal.NAME, journal.encode(()))
    started = Event(kind="started", step=0, time=ledger.now())
    write_atomic(draft / ledger.NAME, ledger.encode(started))


def _rename_new(draft: Path, folder: Path) -> None:
    try:
        draft.rename(folder)
    except OSError:
        # Another process was faster: a folder with something in it is never replaced.
        if os.path.lexists(folder):
            raise _taken(folder) from None
        raise


def _sweep_drafts(folder: Path) -> None:
    """Delete what a killed :meth:`RunWriter.create` of this folder left; never a living one's."""
    for draft in folder.parent.iterdir():
        if draft.name.startswith(f".{folder.name}.") and draft.name.endswith(TEMPORARY):
            with suppress(RunFolderError, StorageError, FileNotFoundError):
                lock = Lock(draft, existing=True)
                shutil.rmtree(draft, ignore_errors=True)
                lock.release()


def _known_places(path: Path, new: Mapping[str, Sequence[str]]) -> tuple[Places, tuple[str, ...]]:
    """The names in the file, none if it is torn or damaged, and what is wrong with it."""
    try:
        if only_renamed(path, new):
            raise ValueError("its names are not those of the model, but their number is")
        return read_places(path), ()
    except (OSError, ValueError) as error:
        return {}, (f"{PLACES} could not be read and was written anew: {error}",)

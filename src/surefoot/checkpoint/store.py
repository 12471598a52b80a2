"""The checkpoints of one run: save, verify, load, confirm, quarantine, rotate."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from surefoot.checkpoint import folder as places
from surefoot.checkpoint.choice import newest_intact, resumable
from surefoot.checkpoint.index import Known, known_checkpoints, write_index
from surefoot.checkpoint.keep import rotate
from surefoot.checkpoint.manifest import (
    MANIFEST,
    STATE,
    FileEntry,
    Manifest,
    NewerFormatError,
    check_contents,
    check_sizes,
)
from surefoot.checkpoint.ranks import Ranks
from surefoot.checkpoint.reading import (
    read_into,
    read_metadata,
    read_state,
    select_tensors,
    verify,
)
from surefoot.checkpoint.storage import METADATA, TensorInfo, tensor_infos, write_tensors
from surefoot.errors import CheckpointError
from surefoot.records import CheckpointInfo, to_json
from surefoot.runs.durable import storage_errors, write_atomic

ABANDONED = "abandoned"
"""Reason of checkpoints that lie beyond the step from which the run went on."""


class CheckpointStore:
    """The checkpoints of one run.

    ``save`` and ``load`` are collective: under an initialised process group every rank calls them,
    all succeed or all raise, and so does ``resumable``. What changes statuses (``confirm``,
    ``quarantine``, ``abandon_after``) acts on rank 0 and does nothing on the others. Reading writes
    nothing, so that a run may be looked at and exported from while it trains; one process (group)
    at a time may save.

    Args:
        folder: the run's ``checkpoints`` folder; made on the first save.
        keep_newest: how many of the newest checkpoints stay; older ones are thinned out as
            :func:`surefoot.checkpoint.keep.steps_to_keep` says.
        interval: steps between regular saves.
        process_group: the ranks that save and load; the default group if None.
    """

    def __init__(
        self,
        folder: Path,
        keep_newest: int = 3,
        interval: int = 100,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        if keep_newest < 1 or interval < 1:
            raise ValueError(f"expected 1 or more, got {keep_newest=}, {interval=}")
        self._folder = folder
        self._keep_newest = keep_newest
        self._interval = interval
        self._group = process_group
        self._oldest_provisional: int | None = None  # None: not known

    # Saving

    def save(
        self,
        step: int,
        tensors: Mapping[str, Tensor],
        state: Mapping[str, Any],
        quarantine: str | None = None,
    ) -> CheckpointInfo:
        """Write a checkpoint, durably, then thin out the older ones.

        Args:
            step: updates made so far; 0 is the initial state.
            tensors: name → tensor; under a process group equal names mean equal content, unless
                the tensor is sharded (DTensor).
            state: everything else, as JSON values (of rank 0). As everywhere in surefoot, numbers
                that are not finite become the strings "nan", "inf", "-inf".
            quarantine: why this state is not to be trusted: ``signal`` (healthy, saved because the
                run was asked to stop), ``incident``, or another short word. It then never becomes
                ``latest``, never makes another one go, and does not replace one of the same step
                that is not quarantined: nothing is written then.

        Returns:
            The checkpoint, or the one that was there already.

        Raises:
            StorageError: the disk is full or refuses; earlier checkpoints are intact.
        """
        ranks = Ranks(self._group)
        ranks.each(lambda: _check_arguments(step, tensors, quarantine))
        text = ranks.each(lambda: json.dumps(to_json(state), indent=1, allow_nan=False).encode())
        present = ranks.first(lambda: self._prepare(step, quarantine))
        if present is not None:
            return present
        self._oldest_provisional = None
        writing = places.writing_path(self._folder, step)

        def write() -> dict[str, FileEntry]:
            with storage_errors(places.final_path(self._folder, step)):
                return write_tensors(writing, tensors, ranks)

        try:
            files: dict[str, FileEntry] = {}
            for part in ranks.gather(write):
                files.update(part)
            return ranks.first(lambda: self._commit(step, files, text, quarantine))
        except BaseException:
            if ranks.rank == 0:
                shutil.rmtree(writing, ignore_errors=True)
            raise

    def _prepare(self, step: int, quarantine: str | None) -> CheckpointInfo | None:
        writing = places.writing_path(self._folder, step)
        with storage_errors(writing):
            self._folder.mkdir(parents=True, exist_ok=True)
            places.clean(self._folder)
            if quarantine is not None:
                for known in known_checkpoints(self._folder):
                    if known.step == step and known.status != "quarantined":
                        return known.info
            writing.mkdir()
        return None

    def _commit(
        self, step: int, files: dict[str, FileEntry], state: bytes, quarantine: str | None
    ) -> CheckpointInfo:
        writing = places.writing_path(self._folder, step)
        serial = 1 + max(
            (known.manifest.serial for known in known_checkpoints(self._folder)), default=0
        )
        files[STATE] = FileEntry(size=len(state), sha256=hashlib.sha256(state).hexdigest())
        manifest = Manifest(step=step, serial=serial, quarantine=quarantine, files=files)
        write_atomic(writing / STATE, state)
        write_atomic(writing / MANIFEST, manifest.encode())  # flushes the folder's entries as well
        places.commit(self._folder, step)
        rotate(self._folder, keep_newest=self._keep_newest, interval=self._interval)
        return Known(folder=places.final_path(self._folder, step), manifest=manifest).info

    # Loading

    def load(
        self, step: int, into: Mapping[str, Tensor], *, partial: bool = False
    ) -> dict[str, Any]:
        """Verify a checkpoint, then read it into the given tensors, in place.

        Args:
            step: which one.
            into: tensors with the names, whole shapes and dtypes that were saved; device and
                sharding may differ. Random states of ranks that did not exist at the save are left
                as they are.
            partial: read only these, and leave other stored tensors unread.

        Returns:
            The state that was saved with it.

        Raises:
            CheckpointError: naming the file that is missing, foreign or altered and the newest
                intact checkpoint before this one, or the first tensors that differ. ``into`` is
                untouched, save where a data file that passed verification cannot be parsed.
        """
        ranks = Ranks(self._group)
        path = ranks.each(lambda: places.require(self._folder, step))
        with self._offering_older(step, ranks):
            manifest = ranks.each(lambda: places.read_checkpoint(self._folder, step))
            verify(path, manifest, ranks)
            metadata = ranks.each(lambda: read_metadata(path, manifest))
            state = ranks.each(lambda: read_state(path))
        present = select_tensors(path, metadata, into, ranks, partial=partial)
        with self._offering_older(step, ranks):
            read_into(path, metadata, present, ranks)
        return state

    def tensors(self, step: int) -> dict[str, TensorInfo]:
        """Shape and dtype of each tensor stored in a checkpoint; verifies what it reads.

        Raises:
            CheckpointError: if there is no such checkpoint, or its description was altered.
        """
        path = places.require(self._folder, step)
        manifest = places.read_checkpoint(self._folder, step)
        check_sizes(path, manifest)
        check_contents(path, manifest, [METADATA])
        return tensor_infos(read_metadata(path, manifest))

    def verify(self, step: int) -> None:
        """Compare every file of a checkpoint with its manifest.

        Raises:
            CheckpointError: naming the file that is missing, foreign or altered and the newest
                intact checkpoint before this one.
        """
        alone = Ranks(alone=True)
        path = places.require(self._folder, step)
        with self._offering_older(step, alone):
            verify(path, places.read_checkpoint(self._folder, step), alone)

    @contextmanager
    def _offering_older(self, step: int, ranks: Ranks) -> Iterator[None]:
        try:
            yield
        except NewerFormatError:
            raise
        except CheckpointError as error:
            older = ranks.first(lambda: newest_intact(self._folder, before=step))
            offer = (
                "there is no intact checkpoint before it"
                if older is None
                else f"the newest intact one before it is step {older}"
            )
            raise CheckpointError(f"{error}; {offer}") from error

    # Statuses

    def infos(self) -> tuple[CheckpointInfo, ...]:
        """The finished checkpoints, by step; their files are not read."""
        return tuple(known.info for known in known_checkpoints(self._folder))

    def latest(self) -> int | None:
        """The newest checkpoint that is not quarantined; None if there is none."""
        steps = [
            known.step for known in known_checkpoints(self._folder) if known.status != "quarantined"
        ]
        return max(steps, default=None)

    def newest_confirmed(self, max_step: int | None = None) -> int | None:
        """The newest confirmed checkpoint, up to ``max_step`` if given; None if there is none."""
        steps = [
            known.step for known in known_checkpoints(self._folder) if known.status == "confirmed"
        ]
        return max((s for s in steps if max_step is None or s <= max_step), default=None)

    def resumable(self, report: Callable[[str], None] | None = None) -> int | None:
        """Where to go on: the newest intact checkpoint that holds a healthy state.

        That is one not quarantined, or quarantined as ``signal``. Reads every file of it.

        Args:
            report: called, on rank 0, with one sentence for each checkpoint passed over because it
                is damaged.

        Returns:
            Its step, the same on every rank; None if there is none.

        Raises:
            CheckpointError: if a newer surefoot wrote a checkpoint here: going on from an older one
                would leave its work behind.
        """
        return Ranks(self._group).first(lambda: resumable(self._folder, report))

    def confirm(self, through_step: int) -> tuple[int, ...]:
        """Mark provisional checkpoints of steps up to ``through_step`` as confirmed.

        Returns:
            Those newly confirmed, on rank 0; nothing on other ranks.
        """
        if not self._writes():
            return ()
        oldest = self._oldest_provisional
        if oldest is not None and through_step < oldest:
            return ()  # asked after each step: nothing is read while nothing can have changed
        checkpoints = known_checkpoints(self._folder)
        provisional = [known.step for known in checkpoints if known.status == "provisional"]
        new = tuple(step for step in provisional if step <= through_step)
        if new:
            changed = [replace(k, confirmed=k.confirmed or k.step in new) for k in checkpoints]
            write_index(self._folder, changed)
        self._oldest_provisional = min(
            (step for step in provisional if step > through_step), default=sys.maxsize
        )
        return new

    def quarantine(self, step: int, reason: str) -> None:
        """Mark a checkpoint as not to be trusted, for good; the reason goes into its manifest.

        Raises:
            CheckpointError: if there is no such checkpoint.
        """
        _check_reason(reason)
        if not self._writes():
            return
        path = places.require(self._folder, step)
        manifest = replace(places.read_checkpoint(self._folder, step), quarantine=reason)
        write_atomic(path / MANIFEST, manifest.encode())
        write_index(self._folder, known_checkpoints(self._folder))

    def abandon_after(self, step: int) -> tuple[int, ...]:
        """Quarantine what lies beyond the step from which the run goes on.

        Those checkpoints belong to a history that is given up; until they are saved anew they must
        be neither ``latest`` nor resumed from. Ones quarantined for trouble keep their reason.

        Returns:
            Those newly abandoned, on rank 0; nothing on other ranks.
        """
        checkpoints = known_checkpoints(self._folder) if self._writes() else []
        beyond = [known.step for known in checkpoints if known.step > step and known.may_resume]
        for number in beyond:
            self.quarantine(number, ABANDONED)
        return tuple(beyond)

    def clean(self) -> None:
        """Remove what a kill left over of saving and deleting; every ``save`` does it as well."""
        if self._writes():
            places.clean(self._folder)

    def _writes(self) -> bool:
        return Ranks(self._group).rank == 0


def _check_reason(reason: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", reason):
        raise ValueError(f"expected a short word as the reason of a quarantine, got {reason!r}")


def _check_arguments(step: int, tensors: Mapping[str, Tensor], quarantine: str | None) -> None:
    if step < 0:
        raise ValueError(f"expected a step of 0 or more, got {step}")
    if quarantine is not None:
        _check_reason(quarantine)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name!r}: expected a tensor, got {type(tensor).__name__}")

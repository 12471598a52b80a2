"""Tensors to and from a folder through torch.distributed.checkpoint, hashed as they are written."""

import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import (
    FileSystem,
    FileSystemReader,
    FileSystemWriter,
)
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from surefoot.checkpoint.manifest import FileEntry
from surefoot.checkpoint.ranks import Ranks
from surefoot.runs.faults import crash_point

METADATA = ".metadata"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is known of a stored tensor without reading it: its whole shape and its dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(tensor: Tensor) -> "TensorInfo":
        """Shape (of the whole, if it is sharded) and dtype of a tensor."""
        return TensorInfo(tuple(tensor.shape), tensor.dtype)


class _HashedFile(io.RawIOBase):
    """A file that knows the SHA-256 of what was written to it, and is on the disk once closed."""

    def __init__(self, path: Path, crash_at: int) -> None:
        self._file = path.open("wb", buffering=1 << 20)
        self._hash = hashlib.sha256()
        self._size = 0
        self._crash_at = crash_at
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        until = self._crash_at - self._size
        if 0 <= until < len(view):
            self._put(view[:until])
            self._file.flush()
            crash_point("checkpoint.write")
            self._put(view[until:])
        else:
            self._put(view)
        return len(view)

    def _put(self, view: memoryview) -> None:
        try:
            self._file.write(view)
        except OSError as error:
            self.error = error  # torch's zip writer turns it into a RuntimeError without its cause
            raise
        self._hash.update(view)
        self._size += len(view)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing: DCP flushes after each tensor, which would undo the buffering."""

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self.error = error
            raise
        finally:
            self._file.close()
            super().close()

    def entry(self) -> FileEntry:
        return FileEntry(size=self._size, sha256=self._hash.hexdigest())


class _HashedFiles(FileSystem):
    """DCP's file system, recording size and SHA-256 of each file written."""

    def __init__(self, crash_at: int) -> None:
        self.entries: dict[str, FileEntry] = {}
        self.error: OSError | None = None
        self._crash_at = crash_at

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        if mode != "wb":
            raise ValueError(f"expected to be opened for writing, got mode {mode!r}")
        try:
            # In the first file, which holds tensors: once a save.
            file = _HashedFile(Path(path), -1 if self.entries else self._crash_at)
        except OSError as error:
            self.error = error
            raise
        try:
            with file:
                yield file
        finally:
            self.error = self.error or file.error
        self.entries[Path(path).name] = file.entry()

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.entries[Path(new_path).name] = self.entries.pop(Path(path).name)


class _Writer(FileSystemWriter):
    def __init__(self, folder: Path, files: _HashedFiles) -> None:
        # One thread: DCP loses an exception raised in a helper thread, and with it the tensors that
        # thread was to write. Files sync themselves when closed: DCP's own sync of `.metadata`
        # comes before Python's buffer is flushed.
        super().__init__(folder, thread_count=1, sync_files=False)
        self.fs = files

    def storage_meta(self) -> StorageMeta:
        return StorageMeta()  # neither the temporary folder's path nor a random id


class _Reader(FileSystemReader):
    def __init__(self, folder: Path, metadata: Metadata) -> None:
        super().__init__(folder)
        self._metadata = metadata

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        return self._metadata


def write_tensors(
    folder: Path, tensors: Mapping[str, Tensor], ranks: Ranks
) -> dict[str, FileEntry]:
    """Write ``tensors`` into ``folder``; every rank calls.

    What several ranks hold alike is written once; sharded tensors (DTensor) are written in parts.
    All files are on the disk when this returns.

    Returns:
        The files of all ranks.

    Raises:
        OSError: if this rank's disk refuses; another rank raises RuntimeError.
    """
    share = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) // ranks.size
    files = _HashedFiles(crash_at=share // 2)
    try:
        with _single_process_is_meant():
            save(
                dict(tensors),
                storage_writer=_Writer(folder, files),
                planner=DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
                process_group=ranks.group,
            )
    except CheckpointException as failure:
        raise (files.error or _cause(failure)) from failure
    return files.entries


def read_tensors(
    folder: Path, metadata: Metadata, into: Mapping[str, Tensor], ranks: Ranks
) -> None:
    """Read into the given tensors, in place; every rank calls with its own.

    Args:
        folder: the verified checkpoint.
        metadata: what ``parse_metadata`` made of its ``.metadata``.
        into: tensors of the stored whole shapes and dtypes; the placement may differ.
        ranks: who reads.

    Raises:
        Exception: whatever the parsing of a data file raised; torch.load(weights_only=True) parses.
    """
    try:
        with _single_process_is_meant():
            load(
                dict(into),
                storage_reader=_Reader(folder, metadata),
                planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
                process_group=ranks.group,
            )
    except CheckpointException as failure:
        raise _cause(failure) from failure


def tensor_infos(metadata: Metadata) -> dict[str, TensorInfo]:
    """Shapes and dtypes of all stored tensors."""
    return {
        name: TensorInfo(tuple(described.size), described.properties.dtype)
        for name, described in metadata.state_dict_metadata.items()
        if isinstance(described, TensorStorageMetadata)
    }


def _cause(failure: CheckpointException) -> BaseException:
    """The first rank's own error, in place of DCP's BaseException that no handler catches."""
    return next(iter(failure.failures.values()))[0]


@contextmanager
def _single_process_is_meant() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "torch.distributed is (disabled|unavailable)", UserWarning
        )
        yield

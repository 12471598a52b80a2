"""Writing so that what was committed stays: fsync of files and directories, atomic replacement.

A rename is atomic, but only what was flushed before it is sure to be there after a power cut, and
the rename itself only once its directory was flushed.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from surefoot.errors import StorageError
from surefoot.runs.faults import crash_point

TEMPORARY = ".tmp"
"""Ending of a file that is being written and not committed."""

RESUME = "then go on with --resume; what was committed before is intact"
"""How to go on after a write that failed in the middle of a run."""
REPEAT = "then repeat the command, or keep runs elsewhere with --runs-dir"
"""How to go on after a run that could not be made: nothing is left of it."""

# What the system says, and what can be done about it.
_REFUSALS = {
    errno.ENOSPC: ("the disk is full", "free some space there"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or ask for a larger quota"),
    errno.EROFS: ("the file system is read-only", "remount it writable"),
    errno.EFBIG: ("it would exceed the limit on file sizes", "raise the limit (ulimit -f)"),
    errno.EIO: ("the device reports an input/output error", "check the disk"),
    errno.EACCES: ("permission is denied", "check its owner and mode"),
    errno.EPERM: ("permission is denied", "check its owner and mode"),
    errno.EISDIR: ("a folder is in its place", "move it away"),
    errno.ENOTDIR: ("a file is in the place of one of its folders", "move it away"),
}
_SPACE = (errno.ENOSPC, errno.EDQUOT)

_way_on: ContextVar[str] = ContextVar("way_on", default=RESUME)


@contextlib.contextmanager
def way_on(words: str) -> Iterator[None]:
    """Let the errors of :func:`storage_errors` within end in these words, which say what to type.

    The same write is a step of a run here and a report there: only the caller knows.
    """
    token = _way_on.set(words)
    try:
        yield
    finally:
        _way_on.reset(token)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn a refusal of the storage while writing ``path`` into a StorageError of one line."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        why, cure = _REFUSALS[error.errno]
        free = f" ({_free(path)} free there)" if error.errno in _SPACE else ""
        raise StorageError(f"cannot write {path}: {why}{free}; {cure}, {_way_on.get()}") from error


def fsync_file(path: Path) -> None:
    """Flush the contents of a file to the disk."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def fsync_dir(path: Path) -> None:
    """Flush a directory, so that renames and deletions in it outlive a power cut."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        except OSError as error:
            # Some network file systems cannot flush a directory: their renames are synchronous.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write every byte of ``data``: ``os.write`` may take fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(
    path: Path, data: bytes | bytearray, before: str | None = None, after: str | None = None
) -> None:
    """Put ``data`` at ``path``, wholly and durably or not at all.

    Args:
        path: replaced if it exists; the bytes go through ``path`` + ``.tmp`` beside it.
        data: the whole contents.
        before: crash point right before the rename.
        after: crash point right after it, before the directory is flushed.

    Raises:
        StorageError: if the disk is full or refuses; the old contents are untouched then.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    with storage_errors(path):
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            if before is not None:
                crash_point(before)
            os.replace(temporary, path)
        except OSError:
            # On a full disk the half-written file would keep the space it took.
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    if after is not None:
        crash_point(after)
    fsync_dir(path.parent)


def make_dir(path: Path) -> None:
    """Make a directory and its parents, where they are not there, durably.

    Raises:
        StorageError: if the disk is full or refuses, or a file is in its place.
    """
    if not path.parent.exists():
        make_dir(path.parent)
    with storage_errors(path):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
            return
    fsync_dir(path.parent)


def remove(path: Path) -> None:
    """Delete a file, if it is there; the caller flushes the directory."""
    with storage_errors(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _free(path: Path) -> str:
    for folder in path.absolute().parents:
        with contextlib.suppress(OSError):
            return _size(shutil.disk_usage(folder).free)
    return "unknown"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"

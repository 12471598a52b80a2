"""One trainer a run: a lock that the operating system takes back when its holder dies."""

import errno
import fcntl
import os
import time
import weakref
from pathlib import Path

from surefoot.errors import RunFolderError
from surefoot.runs.durable import storage_errors

NAME = "lock"

# What a file system says that has no locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """The lock of a run folder, held until :meth:`release` or the end of this process.

    Where the file system has no locks (some network ones), nothing is locked.

    Args:
        folder: the run folder; a file ``lock`` in it holds the process number, for people.
        existing: only if that file is there already; else FileNotFoundError.

    Raises:
        RunFolderError: if another writer holds it.
    """

    def __init__(self, folder: Path, *, existing: bool = False) -> None:
        path = folder / NAME
        with storage_errors(path):
            self._fd = os.open(path, os.O_RDWR | (0 if existing else os.O_CREAT), 0o666)
        try:
            _take(self._fd)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                holder = os.read(self._fd, 32).decode(errors="replace").strip() or "unknown"
                self.release()
                raise RunFolderError(
                    f"{folder} is being written by another trainer (process {holder}): wait for it "
                    "or stop it"
                ) from None
        with storage_errors(path):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Let the next writer in; calling it twice does no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(folder: Path) -> bool | None:
    """Whether a trainer is writing this run now; None if that cannot be known here."""
    try:
        fd = os.open(folder / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(fd)
    return False


def _take(fd: int) -> None:
    """Lock ``fd`` for writing; a look by :func:`is_held`, over in a moment, is waited for."""
    for _ in range(10):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _forget_in_child() -> None:
    # A forked worker shares the lock: one that outlives its killed parent would keep it.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_forget_in_child)

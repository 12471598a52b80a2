"""The cache folder: entries that are whole or absent, whoever builds them, killed or not.

::

    CACHE/surveys/KEY.json          what a source held, by names, sizes and times of its files
    CACHE/tokenizers/KEY/           a trained tokenizer
    CACHE/tokens/KEY/               training and validation tokens of one source

An entry is made under a name of its own, flushed to disk and renamed. Two processes that need the
same entry take turns through a lock where the file system has locks; where it has none, both build
and the first to finish wins.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from surefoot.errors import DataError, StorageError
from surefoot.recipe.words import printable
from surefoot.runs.durable import fsync_dir, fsync_file

T = TypeVar("T")

ELSEWHERE = "--set data.cache_dir=DIR (or the variable SUREFOOT_CACHE)"
_REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_REFUSALS |= {errno.ENOTDIR, errno.EEXIST, errno.EFBIG}
_LEFT = ".tmp-"


def default_folder() -> Path:
    """``$SUREFOOT_CACHE``, else ``~/.cache/surefoot``."""
    named = os.environ.get("SUREFOOT_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "surefoot"


def key_of(*parts: Any) -> str:
    """A name for an entry: SHA-256 of the JSON of what it depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Cache:
    """A folder of entries.

    Args:
        folder: made if it is not there.

    Raises:
        StorageError: if the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with self._writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def entry(
        self, kind: str, key: str, open_: Callable[[Path], T], build: Callable[[Path], None]
    ) -> T:
        """Open the folder of an entry; build it first if it is missing, torn or altered.

        Args:
            kind: subfolder of the cache.
            key: from :func:`key_of`; equal keys mean interchangeable entries.
            open_: reads and verifies the entry; DataError or OSError means that it is not whole.
            build: fills an empty folder.

        Raises:
            StorageError: if the disk is full or refuses; no part of an entry is left.
        """
        final = self.folder / kind / key
        with contextlib.suppress(DataError, OSError):
            return open_(final)
        with self._writing(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            with self._locked(final.parent, key) as alone:
                # Another process may have built it while this one waited.
                with contextlib.suppress(DataError, OSError):
                    return open_(final)
                if alone:
                    _remove_leftovers(final.parent, key)
                self._build(final, open_, build)
        return open_(final)

    def _build(
        self, final: Path, open_: Callable[[Path], T], build: Callable[[Path], None]
    ) -> None:
        temporary = final.with_name(f"{_LEFT}{final.name}-{secrets.token_hex(8)}")
        temporary.mkdir()
        try:
            build(temporary)
            for path in temporary.iterdir():
                fsync_file(path)
            fsync_dir(temporary)
            with contextlib.suppress(DataError, OSError):
                open_(final)  # without locks, another process may have been faster
                return
            bad = temporary.with_name(temporary.name + "-bad")
            with contextlib.suppress(FileNotFoundError):
                final.rename(bad)  # torn or altered; a folder is not replaced by a rename
            try:
                temporary.rename(final)
            except OSError as error:  # without locks again: it came in between
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            fsync_dir(final.parent)
            _remove(bad)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def remember(self, kind: str, key: str, value: dict[str, Any]) -> None:
        """Keep a small JSON value."""
        path = self.folder / kind / f"{key}.json"
        text = json.dumps(value, sort_keys=True)
        line = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "value": value})
        with self._writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked(path.parent, key) as alone:
                if alone:
                    _remove_leftovers(path.parent, key)
                temporary = path.with_name(f"{_LEFT}{key}-{secrets.token_hex(8)}")
                try:
                    temporary.write_text(line)
                    fsync_file(temporary)
                    temporary.replace(path)
                finally:
                    _remove(temporary)
                fsync_dir(path.parent)

    def recall(self, kind: str, key: str) -> dict[str, Any] | None:
        """What :meth:`remember` kept, or None if there is nothing whole."""
        try:
            line = json.loads((self.folder / kind / f"{key}.json").read_bytes())
            value = line["value"]
            text = json.dumps(value, sort_keys=True)
            whole = line["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return value if whole and isinstance(value, dict) else None

    def forget(self, kind: str, key: str) -> None:
        """Drop what :meth:`remember` kept, if anything."""
        with contextlib.suppress(OSError):
            (self.folder / kind / f"{key}.json").unlink()

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            raise StorageError(
                f"cannot write {printable(path)}: {error.strerror}: make room or grant access "
                f"there, or put the cache elsewhere with {ELSEWHERE}"
            ) from error

    @contextlib.contextmanager
    def _locked(self, folder: Path, key: str) -> Iterator[bool]:
        """Hold the lock of an entry; False if the system or file system has no locks."""
        try:
            import fcntl
        except ModuleNotFoundError:
            yield False
            return
        with (folder / f".lock-{key}").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                held = True
            except OSError:
                held = False
            yield held


def _remove_leftovers(folder: Path, key: str) -> None:
    """Remove what killed builders of an entry left; its lock is held, so none is at work."""
    for left in folder.glob(f"{_LEFT}{key}-*"):
        _remove(left)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

"""Which files a source consists of: a deterministic listing of a folder, file or glob."""

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from surefoot.data.sources.document import SourceFile
from surefoot.errors import DataError
from surefoot.recipe.words import printable

_LEFT_OUT_OF_STDLIB = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of a source, sorted by name, and the paths that were passed over and why."""

    root: Path
    files: tuple[SourceFile, ...]
    skipped: tuple[str, ...]


def list_stdlib(root: Path) -> Listing:
    """The ``.py`` files below the standard library, without tests and installed packages."""
    files = [
        SourceFile(path, name)
        for path, name in _walk(root, lambda name: name[-1] not in _LEFT_OUT_OF_STDLIB)
        if name.endswith(".py")
    ]
    return Listing(root, _sorted(files), ())


def list_files(pattern: str, is_known: Callable[[str], bool], known: str) -> Listing:
    """The files that a path names: a folder (searched through), one file, or a glob.

    Hidden files and folders are passed over. A folder may hold files of other kinds: they are
    listed as skipped. A file that is named, by itself or by a glob, must be of a known kind.

    Args:
        pattern: the path; ``~`` is the home folder.
        is_known: whether a file of this name can be read.
        known: the known endings, for messages.

    Raises:
        DataError: if nothing is there, or a named file is of an unknown kind.
    """
    pattern = os.path.expanduser(pattern)
    path = Path(pattern)
    if path.is_dir():
        return _list_folder(path, is_known, known)
    if path.exists():
        root, files = path.parent, [SourceFile(path, path.name)]
    else:
        root, files = _match(path)
    if not files:
        raise DataError(
            f"{printable(pattern)}: no such file or folder, and no file matches it as a pattern"
        )
    for file in files:
        if not file.path.is_file():
            raise DataError(f"{file.shown}: no regular file, or a link to nothing: leave it out")
        if not is_known(file.name):
            raise DataError(
                f"{file.shown}: unknown kind of file; known are {known}: rename it, or narrow the "
                "path to what can be read"
            )
    return Listing(root, _sorted(files), ())


def _list_folder(root: Path, is_known: Callable[[str], bool], known: str) -> Listing:
    files, skipped = [], []
    for path, name in _walk(root, lambda name: True):
        if not is_known(name):
            skipped.append(f"{printable(name)}: not one of {known}")
        elif not path.is_file():
            skipped.append(f"{printable(name)}: no regular file, or a link to nothing")
        else:
            files.append(SourceFile(path, name))
    return Listing(root, _sorted(files), tuple(sorted(skipped)))


def _walk(root: Path, enter: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[Path, str]]:
    """Visible files below a folder, with their relative names; links to folders are followed once.

    Every folder is entered once, under the name that sorts first, so that a loop of links ends and
    no document is read twice.
    """
    seen: set[tuple[int, int]] = set()
    stack = [root]
    while stack:
        folder = stack.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise DataError(
                f"{printable(folder)}: cannot list this folder ({error.strerror})"
            ) from None
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        below = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = Path(entry.path)
            name = path.relative_to(root)
            if not os.path.isdir(path):  # False, where DirEntry.is_dir() raises: a link to itself
                yield path, name.as_posix()
            elif enter(name.parts):
                below.append(path)
        stack.extend(reversed(below))


def _sorted(files: list[SourceFile]) -> tuple[SourceFile, ...]:
    return tuple(sorted(files, key=lambda file: file.name))


def _match(pattern: Path) -> tuple[Path, list[SourceFile]]:
    """The folders of a glob before its first wildcard, and the visible files below that match.

    ``glob.glob`` would follow a loop of links along every path through it.
    """
    root = pattern
    while glob.has_magic(str(root)):
        root = root.parent
    parts = pattern.relative_to(root).parts
    if not parts or not root.is_dir():
        return root, []
    deep = "**" in parts
    found = _walk(root, lambda name: deep or len(name) < len(parts))
    return root, [SourceFile(p, name) for p, name in found if _fits(tuple(name.split("/")), parts)]


def _fits(names: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether the names of a path fit the parts of a glob; ``**`` stands for any number of them."""
    if not parts:
        return not names
    if parts[0] == "**":
        return _fits(names, parts[1:]) or (bool(names) and _fits(names[1:], parts))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _fits(names[1:], parts[1:])

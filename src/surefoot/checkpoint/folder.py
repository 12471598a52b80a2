"""The folder ``checkpoints/``: names, what is in it, and changes to it that survive a kill.

A checkpoint is written under a temporary name and renamed when it is whole; one that is deleted or
replaced is renamed first. So under a final name there is a whole checkpoint or nothing, and what a
kill left over is known by its name. Folders of other names are never touched.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from surefoot.checkpoint.manifest import MANIFEST, Manifest, read_manifest
from surefoot.errors import CheckpointError
from surefoot.runs.durable import TEMPORARY, fsync_dir, storage_errors
from surefoot.runs.faults import crash_point

_FINAL = re.compile(r"step-(?P<step>\d{9,})")
_WRITING = re.compile(r"\.step-\d{9,}\.tmp")
_TRASH = re.compile(r"\.trash-step-\d{9,}")
_REPLACED = re.compile(r"\.replaced-(?P<final>step-(?P<step>\d{9,}))")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A folder with a checkpoint's name that cannot be one: torn, altered, foreign or newer."""

    step: int
    path: Path
    error: CheckpointError


def final_path(root: Path, step: int) -> Path:
    """Where the checkpoint of ``step`` is."""
    return root / f"step-{step:09d}"


def current_path(root: Path, step: int) -> Path:
    """Where the checkpoint of ``step`` is to be read.

    A kill can come when the old one is out of the way and its replacement not yet in place: the old
    one is still there, until :func:`clean` renames it back.
    """
    path = final_path(root, step)
    replaced = _replaced_path(path)
    return replaced if not path.exists() and replaced.is_dir() else path


def writing_path(root: Path, step: int) -> Path:
    """Where the checkpoint of ``step`` is while it is being written."""
    return root / f".step-{step:09d}.tmp"


def require(root: Path, step: int) -> Path:
    """The folder of a checkpoint.

    Raises:
        CheckpointError: if there is none of that step, telling those there are.
    """
    path = current_path(root, step)
    if not path.is_dir():
        there = [str(number) for number, _ in _finished(root)]
        have = f"there are those of steps {', '.join(there)}" if there else "there are none"
        raise CheckpointError(f"{root}: no checkpoint of step {step}; {have}")
    return path


def read_checkpoint(root: Path, step: int) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        CheckpointError: if it is missing, altered, newer, or another step's.
    """
    path = current_path(root, step)
    manifest = read_manifest(path)
    if manifest.step != step:
        raise CheckpointError(
            f"{path / MANIFEST} belongs to step {manifest.step}, expected step {step}"
        )
    return manifest


def scan(root: Path) -> tuple[list[tuple[Path, Manifest]], list[Unreadable]]:
    """The finished checkpoints with their manifests, and what cannot be one, both by step."""
    readable: list[tuple[Path, Manifest]] = []
    unreadable: list[Unreadable] = []
    for step, path in _finished(root):
        try:
            readable.append((path, read_checkpoint(root, step)))
        except CheckpointError as error:
            unreadable.append(Unreadable(step, path, error))
    return readable, unreadable


def clean(root: Path) -> None:
    """Remove what a kill left over of writing, deleting and replacing, and nothing else."""
    for path in _entries(root):
        replaced = _REPLACED.fullmatch(path.name)
        if replaced and not (root / replaced["final"]).exists():
            os.rename(path, root / replaced["final"])  # the new one did not make it
        elif replaced or _WRITING.fullmatch(path.name) or _TRASH.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)  # in use (NFS): tried again next time
        elif _FINAL.fullmatch(path.name):
            (path / (MANIFEST + TEMPORARY)).unlink(missing_ok=True)


def commit(root: Path, step: int) -> None:
    """Give the finished folder of ``step`` its final name, durably, in place of an older one.

    A folder of that name that is no readable checkpoint is not deleted but renamed to
    ``unreadable-…``.
    """
    source, target = writing_path(root, step), final_path(root, step)
    replaced = _replaced_path(target)
    with storage_errors(target):
        if target.exists():
            try:
                read_checkpoint(root, step)
                os.rename(target, replaced)
            except CheckpointError:
                os.rename(target, _free_name(root, f"unreadable-{target.name}"))
        crash_point("checkpoint.before_rename")
        os.rename(source, target)
        crash_point("checkpoint.after_rename")
        fsync_dir(root)
        shutil.rmtree(replaced, ignore_errors=True)


def discard(path: Path) -> None:
    """Delete a checkpoint: after a kill in between it is whole or gone from view."""
    trash = path.with_name(f".trash-{path.name}")
    shutil.rmtree(trash, ignore_errors=True)
    with storage_errors(path):
        os.rename(path, trash)
    fsync_dir(path.parent)
    shutil.rmtree(trash, ignore_errors=True)


def _entries(root: Path) -> list[Path]:
    """The real directories in ``root``, by name; none if it is not there."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())


def _finished(root: Path) -> list[tuple[int, Path]]:
    names = [_FINAL.fullmatch(p.name) or _REPLACED.fullmatch(p.name) for p in _entries(root)]
    steps = {int(match["step"]) for match in names if match}
    found = [(step, current_path(root, step)) for step in sorted(steps)]
    return [(step, path) for step, path in found if path.is_dir() and not path.is_symlink()]


def _replaced_path(final: Path) -> Path:
    return final.with_name(f".replaced-{final.name}")


def _free_name(root: Path, name: str) -> Path:
    candidates = (root / (name if n == 1 else f"{name}-{n}") for n in range(1, 10_000))
    return next(path for path in candidates if not path.exists())

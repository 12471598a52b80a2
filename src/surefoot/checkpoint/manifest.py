"""``manifest.json``: what a checkpoint consists of, and the proof that it is whole.

It is written last, so a folder without one was never finished. It names each file with its size and
SHA-256 and carries the SHA-256 of itself, so that no byte of a checkpoint can change unnoticed.
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from surefoot.errors import CheckpointError
from surefoot.records import from_json
from surefoot.runs.durable import TEMPORARY

FORMAT = 1
"""Version of the checkpoint folder. A newer one is refused by name."""

MANIFEST = "manifest.json"
STATE = "state.json"


class NewerFormatError(CheckpointError):
    """A newer surefoot wrote it: nothing is wrong with it, but it cannot be read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a checkpoint: its size in bytes and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What ``manifest.json`` says.

    Attributes:
        step: updates made when the state was taken.
        serial: number of the save; a later save has a larger one, also after a rewind.
        quarantine: why this state is not to be trusted ("signal", "incident"); None for a normal
            save.
        files: every other file of the folder.
    """

    step: int
    serial: int
    quarantine: str | None
    files: Mapping[str, FileEntry]

    def encode(self) -> bytes:
        """The bytes of ``manifest.json``: one for each manifest, so that any changed byte shows."""
        fields = self._fields()
        return _dump({**fields, "sha256": _digest(fields)})

    @property
    def identity(self) -> str:
        """SHA-256 of the content: tells this save from another one of the same step."""
        return _digest(self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "step": self.step,
            "serial": self.serial,
            "quarantine": self.quarantine,
            "files": {name: asdict(self.files[name]) for name in sorted(self.files)},
        }


def _dump(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dump(fields)).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the checkpoint in ``folder``.

    Raises:
        CheckpointError: if there is none, if it was altered, or if its format is newer.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: {MANIFEST} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    altered = CheckpointError(f"{path} is torn or was altered")
    try:
        fields = json.loads(data)
        version = fields["format"]
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormatError(
                f"{path} has format {version}, this surefoot reads up to format {FORMAT}: "
                "type  pip install --upgrade surefoot"
            )
        manifest = from_json(Manifest, fields)
        whole = manifest.encode() == data and all(map(_is_plain_name, manifest.files))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise altered from None
    if not whole:
        raise altered
    return manifest


def _is_plain_name(name: str) -> bool:
    return name not in ("", ".", "..", MANIFEST) and "/" not in name and "\0" not in name


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compare the folder's list of files and their sizes with the manifest; reads no content.

    Raises:
        CheckpointError: naming a file that is missing, foreign, no plain file or of another size.
    """
    # The temporary one is what a kill leaves of a rewrite of the manifest (a late quarantine).
    own = (MANIFEST, MANIFEST + TEMPORARY)
    try:
        present = {path.name: path.lstat() for path in folder.iterdir() if path.name not in own}
    except OSError as error:  # rotated out while being read, say
        raise CheckpointError(f"{folder}: cannot be listed ({error.strerror})") from error
    for name, entry in manifest.files.items():
        status = present.pop(name, None)
        if status is None:
            raise CheckpointError(f"{folder}: {name} is missing")
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{folder}: {name} is not a plain file")
        if status.st_size != entry.size:
            raise CheckpointError(
                f"{folder}: {name} has {status.st_size} bytes, expected {entry.size}"
            )
    for name in sorted(present):
        raise CheckpointError(f"{folder}: {name} does not belong to the checkpoint")


def check_contents(folder: Path, manifest: Manifest, names: Iterable[str]) -> None:
    """Compare the SHA-256 of the files ``names`` with the manifest.

    Raises:
        CheckpointError: naming the first file whose content was altered or cannot be read.
    """
    for name in names:
        try:
            found = sha256_of(folder / name)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: {name} cannot be read ({error.strerror or error})"
            ) from error
        if found != manifest.files[name].sha256:
            raise CheckpointError(f"{folder}: {name} was altered (its SHA-256 differs)")

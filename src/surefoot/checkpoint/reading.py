"""Reading a checkpoint: nothing of it is parsed before it is known to be what was written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.metadata import Metadata

from surefoot.checkpoint.manifest import STATE, Manifest, check_contents, check_sizes
from surefoot.checkpoint.metadata import UnsafeMetadataError, parse_metadata
from surefoot.checkpoint.random_state import is_dispensable
from surefoot.checkpoint.ranks import Ranks
from surefoot.checkpoint.storage import METADATA, TensorInfo, read_tensors, tensor_infos
from surefoot.errors import CheckpointError

_LISTED = 3
"""Differing tensors that a message names."""


def verify(path: Path, manifest: Manifest, ranks: Ranks) -> None:
    """Check a checkpoint's files against its manifest; each rank hashes a part of them.

    Raises:
        CheckpointError: on every rank, naming a missing, foreign or altered file.
    """
    names = sorted(manifest.files)[ranks.rank :: ranks.size]

    def check() -> None:
        check_sizes(path, manifest)
        check_contents(path, manifest, names)

    ranks.each(check)


def read_metadata(path: Path, manifest: Manifest) -> Metadata:
    """DCP's description of the tensors in a verified checkpoint.

    Raises:
        CheckpointError: if it cannot be read safely.
    """
    sizes = {name: entry.size for name, entry in manifest.files.items()}
    try:
        data = (path / METADATA).read_bytes()
        return parse_metadata(data, sizes)
    except (OSError, UnsafeMetadataError) as error:
        raise CheckpointError(f"{path}: {METADATA} cannot be used: {error}") from error


def read_state(path: Path) -> dict[str, Any]:
    """The JSON state of a verified checkpoint.

    Raises:
        CheckpointError: if it is no JSON table.
    """
    try:
        state = json.loads((path / STATE).read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {STATE} cannot be used: {error}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: {STATE} is no table")
    return state


def read_into(path: Path, metadata: Metadata, into: Mapping[str, Tensor], ranks: Ranks) -> None:
    """Read the tensors ``into`` in place.

    Raises:
        CheckpointError: on every rank, if a data file does not hold what ``.metadata`` says.
    """

    def read() -> None:
        try:
            read_tensors(path, metadata, into, ranks)
        except Exception as error:
            what = str(error).strip().partition("\n")[0]
            raise CheckpointError(
                f"{path}: its tensors cannot be read: {type(error).__name__}: {what}"
            ) from error

    ranks.each(read)


def select_tensors(
    path: Path, metadata: Metadata, into: Mapping[str, Tensor], ranks: Ranks, *, partial: bool
) -> dict[str, Tensor]:
    """Compare names, shapes and dtypes of the stored tensors with those to read into.

    Args:
        path: the checkpoint, for the message.
        metadata: its description.
        into: this rank's tensors; all ranks' names together must be the stored ones.
        ranks: who reads.
        partial: whether stored tensors may be left unread.

    Returns:
        Those of ``into`` that are stored: all but random states of ranks that did not exist then.

    Raises:
        CheckpointError: on every rank, listing the first differing names.
    """
    stored = tensor_infos(metadata)
    wanted: dict[str, TensorInfo] = {}
    for part in ranks.gather(lambda: {name: TensorInfo.of(into[name]) for name in into}):
        wanted.update(part)
    differences = []
    for name, info in sorted(wanted.items()):
        if name not in stored and not is_dispensable(name):
            differences.append(f"{name} is missing in it")
        elif name in stored and stored[name] != info:
            had, has = _as_text(stored[name]), _as_text(info)
            differences.append(f"{name} is {had} in it, expected {has}")
    if not partial:
        unread = [n for n in sorted(stored.keys() - wanted) if not is_dispensable(n)]
        differences += [f"{name} is in it, but not expected" for name in unread]
    if differences:
        more = f"; and {len(differences) - _LISTED} more" if len(differences) > _LISTED else ""
        raise CheckpointError(
            f"{path} holds other tensors than the model and optimizer have: "
            f"{'; '.join(differences[:_LISTED])}{more}; use the recipe it was made with"
        )
    return {name: tensor for name, tensor in into.items() if name in stored}


def _as_text(info: TensorInfo) -> str:
    return f"{str(info.dtype).removeprefix('torch.')} {list(info.shape)}"

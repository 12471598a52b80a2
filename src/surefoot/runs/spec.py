"""``spec.toml``, what a run was asked to do, and ``environment.json``, where it runs.

A field that nobody stated is absent. TOML has NaN, infinities and exact floats of its own, so that
a spec comes back as it was written.
"""

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from surefoot.errors import RunFolderError
from surefoot.records import FORMAT, TrainSpec, from_json, to_json
from surefoot.runs.durable import write_atomic

SPEC = "spec.toml"
ENVIRONMENT = "environment.json"


def write_spec(folder: Path, spec: TrainSpec) -> None:
    """Write ``spec.toml`` durably.

    Raises:
        TypeError: naming what has no place in TOML, e.g. None within a list.
    """
    write_atomic(folder / SPEC, encode_spec(spec))


def read_spec(folder: Path) -> TrainSpec:
    """What a run was asked to do.

    Raises:
        RunFolderError: if there is no ``spec.toml``, it cannot be read, or a newer surefoot wrote
            it.
    """
    path = Path(folder) / SPEC
    try:
        return decode_spec(path.read_bytes(), str(path))
    except OSError as error:
        raise RunFolderError(f"{folder} is not a run folder: {SPEC}: {error.strerror}") from None
    except ValueError as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from None


def encode_spec(spec: TrainSpec) -> bytes:
    """The bytes of ``spec.toml``; ``format`` comes first."""
    table = _table(spec)
    return tomli_w.dumps({"format": table.pop("format"), **table}).encode()


def decode_spec(data: bytes, where: str) -> TrainSpec:
    """Inverse of :func:`encode_spec`.

    Raises:
        ValueError: if it is torn or of another kind.
        RunFolderError: if a newer surefoot wrote it.
    """
    table = tomllib.loads(data.decode())
    number = table.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"expected `format = {FORMAT}`, got {number!r}")
    if number > FORMAT:
        raise RunFolderError(
            f"{where}: written by a newer surefoot (format {number}, this one reads {FORMAT}): "
            "upgrade with  pip install -U surefoot"
        )
    return from_json(TrainSpec, table)


def write_environment(folder: Path, environment: Mapping[str, Any]) -> None:
    """Write ``environment.json`` durably."""
    text = json.dumps(to_json(environment), indent=1, allow_nan=False)
    write_atomic(folder / ENVIRONMENT, text.encode() + b"\n")


def read_environment(folder: Path) -> dict[str, Any]:
    """Versions, devices, flags and git commit, as found when the run was started.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is torn or of another kind.
    """
    data = json.loads((folder / ENVIRONMENT).read_bytes())
    if not isinstance(data, dict):
        raise ValueError("expected a table")
    return data


def _table(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        found = {name: _table(item) for name, item in items.items() if item is not None}
        # A section in which nothing is stated would be an empty heading.
        return {name: item for name, item in found.items() if item != {}}
    if isinstance(value, Mapping):
        return {str(k): _table(item) for k, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_table(item) for item in value]
    if value is None or not isinstance(value, bool | int | float | str):
        raise TypeError(f"cannot write a {type(value).__name__} to {SPEC}: {value!r}")
    return value

"""``places.json``: for each per-place signal, which place each item of its list is.

Append-only in the plain sense: the names of a signal may be extended at the end, never changed or
reordered. So a list of n values is of the first n names, whenever it was written.

The file holds a CRC-32 of its contents, so that a flipped bit in a name is not taken for the name
of another model. Files of before it had one are read too.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from surefoot.errors import RunFolderError
from surefoot.runs.durable import write_atomic

NAME = "places.json"
FORMAT = 1
_CHECKSUM = "crc32"

Places: TypeAlias = dict[str, tuple[str, ...]]


def read_places(path: Path) -> Places:
    """The names of each signal's places.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is torn, damaged or of another kind.
        RunFolderError: if a newer surefoot wrote it.
    """
    data = _read(path)
    if not isinstance(data, dict) or not isinstance(data.get("signals"), dict):
        raise ValueError('expected a table with "signals"')
    number = data.get("format")
    if not isinstance(number, int) or number < 1:
        raise ValueError(f'expected "format": {FORMAT}, got {number!r}')
    if number > FORMAT:
        raise RunFolderError(
            f"{path}: written by a newer surefoot (format {number}, this one reads {FORMAT}): "
            "upgrade with  pip install -U surefoot"
        )
    return {str(name): tuple(map(str, places)) for name, places in data["signals"].items()}


def write_places(path: Path, places: Mapping[str, Sequence[str]]) -> None:
    """Write the names durably."""
    signals = {name: list(names) for name, names in places.items()}
    data = {"format": FORMAT, "signals": signals}
    text = json.dumps({**data, _CHECKSUM: _checksum(data)}, indent=1)
    write_atomic(path, text.encode() + b"\n")


def only_renamed(path: Path, new: Mapping[str, Sequence[str]]) -> bool:
    """Whether a file without a checksum has the signals of ``new``, as long, with other names.

    So damage to a few characters looks; another model has other numbers of places as a rule.

    Raises:
        OSError, ValueError, RunFolderError: as :func:`read_places`.
    """
    known = read_places(path)
    if _CHECKSUM in _read(path) or known == {name: tuple(places) for name, places in new.items()}:
        return False
    was, now = ({name: len(places) for name, places in p.items()} for p in (known, new))
    return was == now


def _read(path: Path) -> Any:
    data = json.loads(path.read_bytes())
    # Before its format: that of a damaged file says nothing.
    if isinstance(data, dict) and _CHECKSUM in data:
        rest = {key: value for key, value in data.items() if key != _CHECKSUM}
        if data[_CHECKSUM] != _checksum(rest):
            raise ValueError("it does not match its checksum")
    return data


def _checksum(data: Mapping[str, Any]) -> str:
    """Of the values, not of how they are laid out; eight hexadecimal digits."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def extend(known: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> Places:
    """The union of both.

    Raises:
        RunFolderError: if a place that is known has another name in ``new``.
    """
    united = {name: tuple(places) for name, places in known.items()}
    for name, places in new.items():
        was = united.get(name, ())
        for number, (old, now) in enumerate(zip(was, places, strict=False)):
            if old != now:
                raise RunFolderError(
                    f"the model is another one than the run's: place {number} of signal {name!r} "
                    f"was {old!r}, now it is {now!r}; start a new run with another --name"
                )
        if len(places) > len(was):
            united[name] = tuple(places)
    return united

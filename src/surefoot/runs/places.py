"""``places.json``: for each per-place signal, which place each item of its list is.

Append-only in the plain sense: the names of a signal may be extended at the end, never changed or
reordered. So a list of n values is of the first n names, whenever it was written.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from surefoot.errors import RunFolderError
from surefoot.runs.durable import write_atomic

NAME = "places.json"
FORMAT = 1

Places: TypeAlias = dict[str, tuple[str, ...]]


def read_places(path: Path) -> Places:
    """The names of each signal's places.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is torn or of another kind.
        RunFolderError: if a newer surefoot wrote it.
    """
    data = json.loads(path.read_bytes())
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
    text = json.dumps({"format": FORMAT, "signals": signals}, indent=1)
    write_atomic(path, text.encode() + b"\n")


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

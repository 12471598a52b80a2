"""Tables that Weights & Biases exports: a column for each run and metric, and its bounds."""

from collections.abc import Mapping, Sequence

from surefoot.errors import LogError
from surefoot.readers.logs._records import signal_of

_BOUNDS = ("__MIN", "__MAX")
_BETWEEN = " - "
MOST_NAMED = 8
_SPLITS = frozenset("train training val valid validation eval test".split())


def plain_names(header: Sequence[str]) -> list[str]:
    """Names of the columns without the run's name and without bounds."""
    runs = _runs(header)
    return [
        name.rpartition(_BETWEEN)[2] if name in runs else name
        for name in header
        if not name.endswith(_BOUNDS)
    ]


def chosen(header: Sequence[str], said: Mapping[str, str], file: str) -> dict[str, str]:
    """The columns to read: name -> key under which its numbers are told.

    Of an export of one run the key is the metric alone, but for columns that the user named.

    Raises:
        LogError: if there are several runs and the user did not name one of their columns.
    """
    runs = _runs(header)
    named = [key for key in said.values() if key in runs]
    names = list(dict.fromkeys(runs.values()))
    if len(names) > 1:
        if not named:
            some = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
            metric = next((c for c in runs if signal_of(_metric(c)) == "loss"), next(iter(runs)))
            raise LogError(
                f'{file} holds {len(names)} runs ({some}): choose one, --map loss="{metric}"'
            )
        names = list(dict.fromkeys(runs[key] for key in named))
    keys = {}
    for name in header:
        if name.endswith(_BOUNDS) and name[: -len("__MIN")] in header:
            continue
        run = runs.get(name)
        if run is None or name in said.values():
            keys[name] = name
        elif run in names:
            keys[name] = _metric(name)
    return keys


def _metric(name: str) -> str:
    return name.rpartition(_BETWEEN)[2]


def _runs(header: Sequence[str]) -> dict[str, str]:
    """Column -> run, of the columns that are of a run."""
    columns = set(header)
    exported = {
        name for name in header if _BETWEEN in name and any(name + b in columns for b in _BOUNDS)
    }
    if not exported:  # exports of few points have no bounds
        several = [name for name in header if _BETWEEN in name and signal_of(_metric(name))]
        exported = {n for n in several if n.rpartition(_BETWEEN)[0].lower() not in _SPLITS}
    return {name: name.rpartition(_BETWEEN)[0] for name in header if name in exported}

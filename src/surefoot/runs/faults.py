"""Crash points: named instants at which a test can kill the process, as kill -9 would.

``SUREFOOT_CRASH_AT=segment.after_rename`` (or ``NAME:3`` for the third time it is reached) kills
the process there. Unset, a crash point is one look-up in the environment.
"""

import os
import signal

from surefoot.errors import UsageError, nearest

VARIABLE = "SUREFOOT_CRASH_AT"

POINTS = (
    "checkpoint.after_rename",
    "checkpoint.before_rename",
    "checkpoint.write",
    "ledger.write",
    "merge",
    "segment.after_rename",
    "segment.before_rename",
    "step",
)
"""Every crash point. ``merge`` is reached twice in a merge: before and after its rename."""

_hits: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL if ``SUREFOOT_CRASH_AT`` names this point and its turn.

    Raises:
        UsageError: if the variable names no known point, or a turn that is no positive number.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    point, turn = _parse(wanted)
    if point != name:
        return
    _hits[name] = _hits.get(name, 0) + 1
    if _hits[name] == turn:
        os.write(2, f"surefoot: crash point {name} reached\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)


def armed(name: str) -> bool:
    """Whether ``SUREFOOT_CRASH_AT`` names this point, whatever its turn."""
    wanted = os.environ.get(VARIABLE)
    return wanted is not None and _parse(wanted)[0] == name


def _parse(wanted: str) -> tuple[str, int]:
    point, separator, turn = wanted.partition(":")
    if point not in POINTS:
        known = ", ".join(POINTS)
        raise UsageError(
            f"{VARIABLE}={wanted}: no crash point {point!r}{nearest(point, list(POINTS))}; "
            f"known: {known}"
        )
    if separator and not (turn.isdecimal() and int(turn) > 0):
        raise UsageError(f"{VARIABLE}={wanted}: expected {point}:N with N of 1 or more")
    return point, int(turn) if separator else 1

"""A curve as three lines of characters, for terminals; every spike and every NaN can be seen."""

import numpy as np

from surefoot.report.columns import Curve, Floats
from surefoot.report.text import number
from surefoot.report.thinning import peaks_by_column

ROWS = 3
_LEAST = 10
"""Columns that a scale must leave to the picture."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:|"


def sparkline(curve: Curve, width: int, *, ascii_only: bool = False) -> list[str]:
    """The largest value in each column as a bar, ``x`` on top where one was not finite.

    Args:
        curve: at least one value.
        width: of the lines, at most; where few columns would be left beside it, the scale goes.
        ascii_only: use no block characters.

    Returns:
        :data:`ROWS` lines, and one with the first and the last step, as far as they fit.
    """
    finite = curve.values[np.isfinite(curve.values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    labels = (number(high), number(low)) if len(finite) else ("", "")
    margin = max(map(len, labels)) + 1
    if width - margin < _LEAST:
        labels, margin = ("", ""), 0
    room = max(width - margin, 1)
    tops, broken = peaks_by_column(curve.values, room)
    levels = _levels(tops, low, high, _ASCII if ascii_only else _BLOCKS)
    lines = []
    for row in range(ROWS):
        label = labels[0] if row == 0 else labels[1] if row == ROWS - 1 else ""
        cells = [
            "x" if row == 0 and bad else column[ROWS - 1 - row]
            for column, bad in zip(levels, broken, strict=True)
        ]
        scale = f"{label:>{margin - 1}} " if margin else ""
        lines.append(f"{scale}{''.join(cells)}".rstrip())
    lines.append(" " * margin + _foot(curve, len(tops), room))
    return lines


def _foot(curve: Curve, columns: int, room: int) -> str:
    """The first and the last step under the ends of the picture; the last, or none, if narrow."""
    first, last = f"{curve.steps[0]:,}", f"{curve.steps[-1]:,}"
    if len(first) + 1 + len(last) > room:
        return f"{last:>{columns}}" if len(last) <= room else ""
    return first + " " * max(1, columns - len(first) - len(last)) + last


def _levels(tops: Floats, low: float, high: float, characters: str) -> list[list[str]]:
    """For each column, its characters from the bottom row up."""
    steps = len(characters) - 1
    columns = []
    for top in tops:
        if top != top:
            columns.append([" "] * ROWS)
            continue
        # Halved, so that the widest range of floats does not overflow.
        share = (top / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0
        level = 1 + round(share * (ROWS * steps - 1))  # the lowest value still shows
        columns.append([characters[min(max(level - r * steps, 0), steps)] for r in range(ROWS)])
    return columns

"""Curves as plotly traces: every spike is kept, and what cannot be drawn is marked at its step."""

import math
from html import escape
from typing import Any

import numpy as np

from surefoot.report.columns import Bools, Curve, Floats
from surefoot.report.text import count, number, plain
from surefoot.report.thinning import stretches, thin

Json = dict[str, Any]

POINTS = 5000
"""Points of a line; a chart is about 1000 pixels wide."""
STRETCHES = 300
"""Marks for NaN and infinities in one line."""


def line_traces(label: str, line: Curve, colour: str, log: bool) -> list[Json]:
    """The line through the drawable values, and marks where a value cannot be drawn."""
    finite = np.isfinite(line.values)
    drawable = finite & (line.values > 0) if log else finite
    rows = np.flatnonzero(drawable)
    rows = rows[thin(line.values[rows], POINTS)]
    few = len(rows) <= 60
    trace: Json = {
        "type": "scatter",
        "mode": "lines+markers" if few else "lines",
        "name": label,
        "x": line.steps[rows].tolist(),
        "y": rounded(line.values[rows]),
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "size": 5},
        "hovertemplate": "%{y:.5~g}",
    }
    if line.label_of is not None:
        known = [escape(plain(place)) for place in line.labels]
        names = [known[i] for i in line.label_of[rows]]
        trace |= {"text": names, "hovertemplate": "%{y:.5~g} in %{text}"}
    traces = [trace]
    for wanted, what, symbol in (
        (~finite, "not finite", "x"),
        (finite & ~drawable, "0 or less", "circle-open"),
    ):
        traces += _undrawable(line, wanted, f"{label}: {what}", symbol)
    return traces


def _undrawable(line: Curve, wanted: Bools, label: str, symbol: str) -> list[Json]:
    found = stretches(line.steps, wanted, STRETCHES)
    if not found:
        return []
    x: list[int | None] = []
    text: list[str] = []
    for stretch in found:
        where = f"{stretch.first} to {stretch.last}"
        if stretch.first == stretch.last:
            where = f"{stretch.first}"
        words = f"{label} at {count(stretch.count, 'step')}, {where}"
        x += [stretch.first, stretch.last, None]
        text += [words, words, ""]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label,
            "x": x,
            "y": [None if step is None else 0.96 for step in x],
            "yaxis": "y2",
            "text": text,
            "hovertemplate": "%{text}<extra></extra>",
            "line": {"color": "@error", "width": 3},
            "marker": {"color": "@error", "size": 8, "symbol": symbol},
            "showlegend": True,
        }
    ]


def level_trace(label: str, value: float, steps: tuple[float, float]) -> Json:
    """A horizontal line at ``value`` over all steps."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": list(steps),
        "y": [value, value],
        "line": {"color": "@muted", "width": 1, "dash": "dash"},
        "hoverinfo": "skip",
        "showlegend": True,
    }


def caption(line: Curve) -> str:
    """``last 3.11 at step 500; lowest 3.05 at step 480; highest 7.6 at step 1``."""
    parts = [f"last {number(float(line.values[-1]))} at step {line.steps[-1]:,}"]
    finite = np.isfinite(line.values)
    if finite.any() and len(line.values) > 1:
        low = int(np.where(finite, line.values, np.inf).argmin())
        high = int(np.where(finite, line.values, -np.inf).argmax())
        for word, row in (("lowest", low), ("highest", high)):
            parts.append(f"{word} {number(float(line.values[row]))} at step {line.steps[row]:,}")
    if not finite.all():
        parts.append(f"not finite at {count(int((~finite).sum()), 'step')}")
    return "; ".join(parts)


def logarithmic(wanted: bool, lines: list[Floats]) -> bool:
    """Whether the axis of ``lines`` is to be logarithmic.

    Where it is wanted, if the values differ by more than a factor of 2; else only where a few
    values (a loss of 1e5 at its end) would press all others flat.
    """
    values = np.concatenate(lines)
    finite = values[np.isfinite(values)]
    logs = np.log10(finite[finite > 0])
    if not len(logs):
        return False
    if wanted:
        return bool(logs.max() - logs.min() > math.log10(2))
    return bool(finite.min() > 0 and logs.max() - np.median(logs) > math.log10(50))


def log_ticks(lines: list[Floats]) -> Json:
    """Ticks at 1, 2 and 5 of a decade where few decades are shown; powers of ten else."""
    values = np.concatenate(lines)
    logs = np.log10(values[np.isfinite(values) & (values > 0)])
    if logs.max() - logs.min() < 2:
        return {"dtick": "D2", "tickformat": ".3~g"}
    return {"exponentformat": "power"}


def rounded(values: Floats, digits: int = 6) -> list[float]:
    """Finite values with ``digits`` significant digits: what a screen can show, in fewer bytes."""
    return [float(f"{value:.{digits}g}") for value in values.tolist()]

"""The charts of a report as plotly figures: plain dictionaries, so that plotly is not imported.

Colours are names (``@ink``) that the page replaces by those of the reader's light or dark theme.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.records import Finding, Run
from surefoot.report import marks
from surefoot.report.columns import curve
from surefoot.report.heatmap import heat_map
from surefoot.report.panels import PANELS, Measured, Panel, measure
from surefoot.report.text import number
from surefoot.report.traces import caption, level_trace, line_traces, log_ticks, logarithmic

Json = dict[str, Any]

HEIGHT = 250
LANE = 20
"""Heights in pixels."""
_COLOURS = ("@series1", "@series2", "@series3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart and its words.

    Attributes:
        panel: what it shows.
        spec: ``data`` and ``layout`` for plotly; strict JSON.
        height: pixels.
        caption: the curve in words, for those who do not see it.
    """

    panel: Panel
    spec: Json
    height: int
    caption: str


def figures(run: Run, findings: Iterable[Finding]) -> tuple[list[Figure], list[Panel]]:
    """The charts that ``run`` has data for, and the panels it has none for."""
    findings = list(findings)
    drawn, missing = [], []
    shapes = marks.shapes(run, findings)
    for panel in PANELS:
        measured = measure(run, panel)
        if measured is None:
            if panel.expected:
                missing.append(panel)
        elif measured.grid is not None:
            spec, height, words = heat_map(measured.grid)
            _finish(spec, run, shapes)
            drawn.append(Figure(panel=panel, spec=spec, height=height, caption=words))
        else:
            drawn.append(_line_chart(run, findings, measured, shapes))
    return drawn, missing


def step_range(run: Run) -> tuple[float, float]:
    """The first and last step of rows and checkpoints, with a little room; (0, 1) without any."""
    line = curve(run, "step")
    steps = [info.step for info in run.checkpoints]
    if line is not None:
        steps += [int(line.steps[0]), int(line.steps[-1])]
    if not steps:
        return 0.0, 1.0
    room = max(0.5, (max(steps) - min(steps)) * 0.02)
    return min(steps) - room, max(steps) + room


def _line_chart(
    run: Run, findings: list[Finding], measured: Measured, shapes: list[Json]
) -> Figure:
    panel = measured.panel
    lines = [line.values for _, line in measured.curves]
    if measured.level is not None:
        lines.append(np.array([measured.level[1]]))
    log = logarithmic(panel.log, lines)
    data: list[Json] = []
    captions = []
    for index, (label, line) in enumerate(measured.curves):
        colour = _COLOURS[index]
        data += line_traces(label, line, colour, log)
        captions.append(f"{label.capitalize()}: {caption(line)}.")
    layout: Json = {
        "yaxis": {"type": "log" if log else "linear", "domain": [0, 1]},
        # A fixed axis over the plot, 0 at its foot and 1 at its top, for marks without a value.
        "yaxis2": {"overlaying": "y", "range": [0, 1], "fixedrange": True, "visible": False},
        "hovermode": "x unified",
        "showlegend": len(measured.curves) > 1,
    }
    if log:
        layout["yaxis"] |= log_ticks(lines)
    height = HEIGHT
    if panel.key == "loss":
        height += 60 + _add_lanes(run, findings, data, layout)
    spec: Json = {"data": data, "layout": layout}
    if measured.level is not None:
        label, value = measured.level
        data.append(level_trace(f"{label} {number(value)}", value, step_range(run)))
        layout["showlegend"] = True
    _finish(spec, run, shapes)
    return Figure(panel=panel, spec=spec, height=height, caption=" ".join(captions))


def _add_lanes(run: Run, findings: list[Finding], data: list[Json], layout: Json) -> int:
    """Rows of symbols above the plot; returns their height in pixels."""
    rows = marks.lanes(run, findings)
    if not rows:
        return 0
    height = LANE * len(rows) + 8
    share = height / (HEIGHT + height)  # about: of the plot without its margins
    layout["yaxis"]["domain"] = [0, 1 - share]
    layout["yaxis3"] = {
        "domain": [1 - share + 0.02, 1],
        "range": [len(rows) - 0.5, -0.5],
        "tickvals": list(range(len(rows))),
        "ticktext": [name for name, _ in rows],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
    }
    for index, (_, trace) in enumerate(rows):
        data.append({**trace, "y": [index] * len(trace["x"]), "yaxis": "y3"})
    return height


def _finish(spec: Json, run: Run, shapes: list[Json]) -> None:
    spec["layout"]["xaxis"] = {
        "range": list(step_range(run)),
        # Deep in a zoom ticks fall between steps: say so rather than repeat a number.
        "tickformatstops": [
            {"dtickrange": [None, 0.99], "value": ",.2~f"},
            {"dtickrange": [1, None], "value": ",d"},
        ],
        "unifiedhovertitle": {"text": "step %{x:,d}"},
    }
    spec["layout"]["shapes"] = shapes

"""A heat map of a per-place signal: places over steps, colour on a logarithmic scale."""

import math
from html import escape
from typing import Any

import numpy as np

from surefoot.report.columns import Floats, Grid
from surefoot.report.text import count, plain
from surefoot.report.thinning import block_max, by_group

Json = dict[str, Any]

BLOCKS = 600
"""Columns of cells."""
MOST_PLACES = 80
"""Rows of cells; of more places, those of a layer are gathered into one row."""
ROW, MARGIN = 13, 80
"""Heights in pixels."""


def heat_map(grid: Grid) -> tuple[Json, int, str]:
    """The figure (data and layout), its height in pixels, and the map in words."""
    blocks = block_max(grid.steps, grid.values, grid.recorded, BLOCKS)
    places = grid.places
    gathered = ""
    if len(places) > MOST_PLACES:
        blocks, places = by_group(blocks, places)
        gathered = f" and of the {len(grid.places)} places, gathered by layer"
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(blocks.peaks)
    logs[~np.isfinite(logs)] = np.nan  # 0 has no logarithm: blank, as what was not recorded
    names = [escape(plain(place)) for place in places]
    data = [_cells(logs, blocks.edges, names)]
    if blocks.broken.any():
        data.append(_broken(blocks.broken, blocks.edges, names))
    layout = {
        "yaxis": {
            "autorange": "reversed",
            "type": "category",
            "heat": True,
            "tickvals": names,
            "ticktext": [escape(shortened(plain(place))) for place in places],
        },
        "hovermode": "closest",
        "showlegend": False,
    }
    each = "one step" if blocks.longest == 1 else f"the largest of {blocks.longest} steps"
    caption = (
        f"{count(len(places), 'row')}, the first place on top; a cell is "
        f"{each}{gathered}. {_extremes(blocks.peaks, blocks.edges, places)}"
        "Blank: 0 or not recorded."
    )
    if blocks.broken.any():
        caption += " Red: NaN or infinite."
    return {"data": data, "layout": layout}, MARGIN + ROW * max(len(places), 8), caption


def shortened(name: str, most: int = 27) -> str:
    """A name that fits beside the map: without ``.weight``, and of a longer one its end."""
    name = name.removesuffix(".weight")
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _cells(logs: Floats, edges: Floats, names: list[str]) -> Json:
    finite = logs[np.isfinite(logs)]
    top = float(finite.max()) if len(finite) else 0.0
    # A handful of tiny values must not use up the colours.
    foot = float(np.percentile(finite, 1)) if len(finite) else -1.0
    if top - foot < 1e-6:
        foot = top - 1
    ticks = _ticks(foot, top)
    return {
        "type": "heatmap",
        "x": edges.tolist(),
        "y": names,
        "z": _matrix(logs.T),
        "zmin": round(foot, 3),
        "zmax": round(top, 3),
        "colorscale": "Viridis",
        "hoverongaps": False,
        "colorbar": {
            "tickvals": ticks,
            "ticktext": [f"{10.0**tick:.3g}" for tick in ticks],
            "thickness": 12,
            "outlinewidth": 0,
        },
    }


def _broken(broken: Any, edges: Floats, names: list[str]) -> Json:
    return {
        "type": "heatmap",
        "name": "not finite",
        "x": edges.tolist(),
        "y": names,
        "z": [[1 if cell else None for cell in row] for row in broken.T.tolist()],
        "colorscale": [[0, "@error"], [1, "@error"]],
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": "%{y}<br>step %{x:,d}: not finite<extra></extra>",
    }


def _ticks(foot: float, top: float) -> list[float]:
    """Whole powers of ten in the range, about five; its ends if there are fewer than two."""
    every = max(1, math.ceil((top - foot) / 5))
    ticks = [float(t) for t in range(math.ceil(foot), math.floor(top) + 1) if t % every == 0]
    return ticks if len(ticks) > 1 else [round(foot, 3), round(top, 3)]


def _matrix(values: Floats) -> list[list[float | None]]:
    rows = np.round(values, 3).tolist()
    return [[None if cell != cell else cell for cell in row] for row in rows]


def _extremes(peaks: Floats, edges: Floats, places: tuple[str, ...]) -> str:
    """``Largest: 4.2 in layers.3.attention.wo near step 310. ``."""
    if not np.isfinite(peaks).any():
        return ""
    block, place = np.unravel_index(np.nanargmax(peaks), peaks.shape)
    step = round((edges[block] + edges[block + 1]) / 2)
    return f"Largest: {peaks[block, place]:.3g} in {plain(places[place])} near step {step:,}. "

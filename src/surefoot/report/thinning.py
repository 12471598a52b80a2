"""Fewer points for the same picture: spikes, dips and non-finite values are never thinned away."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.report.columns import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A grid with its steps gathered into b blocks.

    Attributes:
        edges: (b + 1,) borders between the blocks on the step axis.
        peaks: (b, p) largest finite magnitude in each block; NaN if it holds none.
        broken: (b, p) whether a value in the block was NaN or infinite.
        longest: steps in the longest block.
    """

    edges: Floats
    peaks: Floats
    broken: Bools
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive rows, first to last step, of which ``count`` are meant."""

    first: int
    last: int
    count: int


def thin(values: Floats, points: int) -> Ints:
    """Indices of at most about ``points`` values that draw the same curve as all of them.

    Each bin keeps its smallest and its largest value (MinMax, by tsdownsample), so that every spike
    stays; the first and the last value stay too. ``values`` are finite.
    """
    if len(values) <= points:
        return np.arange(len(values))
    from tsdownsample import MinMaxDownsampler

    sampler: Any = MinMaxDownsampler
    kept: Ints = sampler().downsample(np.ascontiguousarray(values), n_out=points // 2 * 2)
    indices: Ints = np.union1d(kept.astype(np.int64), [0, len(values) - 1])
    return indices


def stretches(steps: Ints, wanted: Bools, limit: int) -> list[Stretch]:
    """The stretches of rows where ``wanted`` holds; neighbours are joined until ``limit`` are left.

    Joined stretches count only the wanted rows, so ``count`` may be less than the rows spanned.
    """
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return []
    gaps = np.diff(rows)
    breaks = np.flatnonzero(gaps > 1)
    if len(breaks) >= limit:  # break at the widest gaps only
        widest = np.argsort(-gaps[breaks], kind="stable")[: limit - 1]
        breaks = np.sort(breaks[widest])
    starts = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [len(rows) - 1]))
    return [
        Stretch(first=int(steps[rows[a]]), last=int(steps[rows[b]]), count=int(b - a + 1))
        for a, b in zip(starts, ends, strict=True)
    ]


def block_max(steps: Ints, values: Floats, recorded: Bools, blocks: int) -> Blocks:
    """Gather the n rows of a grid into at most ``blocks``, keeping the peak of each place."""
    n = len(steps)
    borders = np.linspace(0, n, min(n, blocks) + 1).astype(np.int64)
    finite = np.isfinite(values)
    magnitude = np.where(finite, np.abs(values), -np.inf)
    peaks = np.maximum.reduceat(magnitude, borders[:-1], axis=0)
    broken = np.logical_or.reduceat(recorded & ~finite, borders[:-1], axis=0)
    edges = np.append(steps[borders[:-1]] - 0.5, steps[-1] + 0.5)
    return Blocks(
        edges=edges,
        peaks=np.where(np.isneginf(peaks), np.nan, peaks),
        broken=broken,
        longest=int(np.diff(borders).max()),
    )


def by_group(blocks: Blocks, places: tuple[str, ...]) -> tuple[Blocks, tuple[str, ...]]:
    """Gather the places of one layer (``layers.3.attention.wo`` -> ``layers.3``) into one row."""
    groups = [_layer_of(place) for place in places]
    names = tuple(dict.fromkeys(groups))
    peaks = np.full((len(blocks.peaks), len(names)), np.nan)
    broken = np.zeros(peaks.shape, dtype=bool)
    for index, name in enumerate(names):
        members = [i for i, group in enumerate(groups) if group == name]
        peaks[:, index] = np.fmax.reduce(blocks.peaks[:, members], axis=1)
        broken[:, index] = blocks.broken[:, members].any(axis=1)
    return Blocks(edges=blocks.edges, peaks=peaks, broken=broken, longest=blocks.longest), names


def _layer_of(place: str) -> str:
    """The name up to its first number; all of it if it has none."""
    match = re.match(r"(.*?\.\d+)(\.|$)", place)
    return match[1] if match else place


def peaks_by_column(values: Floats, columns: int) -> tuple[Floats, Bools]:
    """Largest finite value (NaN if none) and whether any is not finite, for each column."""
    borders = np.linspace(0, len(values), min(len(values), columns) + 1).astype(np.int64)
    finite = np.isfinite(values)
    tops = np.maximum.reduceat(np.where(finite, values, -np.inf), borders[:-1])
    broken = np.logical_or.reduceat(~finite, borders[:-1])
    return np.where(np.isneginf(tops), np.nan, tops), broken

"""What the results say: means over seeds, the largest stable rate, counts of spikes."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from surefoot.testing.intervals import poisson_interval

Result = dict[str, Any]

FAILED = 0.5
"""A rate fails where the held-out loss ends so many nats above the row's best, with that seed."""


def read(folder: Path, experiment: str, keys: Iterable[str]) -> list[Result]:
    """The results of the cells that the grid now has; of a cell made twice, the last."""
    wanted, found = set(keys), {}
    path = folder / f"{experiment}.jsonl"
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except ValueError:
            continue  # torn by a crash; the cell is made again
        if result["key"] in wanted:
            found[result["key"]] = result
    return list(found.values())


def of(results: Sequence[Result], variant: str, rate: float | None = None) -> list[Result]:
    """Those of a row, and of a column."""
    return [r for r in results if r["variant"] == variant and rate in (None, r["rate"])]


def ended(result: Result) -> float:
    """The held-out loss at the end; infinite where the run did not get there."""
    loss = float(result["validation_loss"])
    return loss if math.isfinite(loss) and not result["diverged"] else math.inf


def mean(results: Sequence[Result], name: str = "validation_loss") -> float:
    """Over seeds; NaN where there are none."""
    return statistics.fmean(float(r[name]) for r in results) if results else math.nan


def cell(results: Sequence[Result], digits: int = 3) -> str:
    """Mean over seeds with the half range, ``-`` where nothing was made."""
    if not results:
        return "-"
    values = [float(r["validation_loss"]) for r in results]
    failed = sum(r["diverged"] for r in results)
    text = f"{statistics.fmean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {(max(values) - min(values)) / 2:.{digits}f}"
    return text + (f" ({failed} diverged)" if failed else "")


def stable_rates(results: Sequence[Result], rates: Sequence[float]) -> list[tuple[float, float]]:
    """By seed: the largest stable rate, and the next one that was tried.

    From the best rate of the row and seed upwards, a rate is stable while the run ends finite, not
    worse than it began, and within :data:`FAILED` nats of that best. (Rates below it are slow, not
    unstable.) Infinity where no rate fails.
    """
    found = []
    for seed in sorted({r["seed"] for r in results}):
        by_rate = {r["rate"]: ended(r) for r in results if r["seed"] == seed}
        tried = [rate for rate in rates if rate in by_rate]
        if len(tried) < len(rates):
            continue  # this seed is not finished
        best = min(by_rate.values())
        first = min(rate for rate in tried if by_rate[rate] == best)
        failing = [rate for rate in tried if rate > first and by_rate[rate] > best + FAILED]
        bad = failing[0] if failing else math.inf
        found.append((max(rate for rate in tried if rate < bad), bad))
    return found


def stable_words(found: Sequence[tuple[float, float]]) -> str:
    """``0.03 [0.03, 0.1)``: the median seed's, and within which rates all seeds' limits lie."""
    if not found:
        return "-"
    lows, highs = sorted(a for a, _ in found), [b for _, b in found]
    above = max(highs)
    end = "..." if above == math.inf else f"{above:g}"
    return f"{statistics.median_low(lows):g} [{lows[0]:g}, {end})"


def spike_words(results: Sequence[Result], per: int = 1000) -> str:
    """Spikes per so many steps with their exact 95 % Poisson interval."""
    steps = sum(r["steps"] for r in results)
    if not steps:
        return "-"
    count = sum(r["spikes"] for r in results)
    low, high = poisson_interval(count)
    return f"{count * per / steps:.2f} [{low * per / steps:.2f}, {high * per / steps:.2f}]"


def sensitivity(results: Sequence[Result], rates: Sequence[float]) -> list[float]:
    """Learning-rate sensitivity by seed: the mean over the rates of min(loss, first loss) - best.

    As Wortsman et al. 2023 (2309.14322) are understood; their formula was not at hand.
    """
    found = []
    for seed in sorted({r["seed"] for r in results}):
        mine = {r["rate"]: r for r in results if r["seed"] == seed}
        if any(rate not in mine for rate in rates):
            continue
        losses = [min(ended(mine[rate]), mine[rate]["first_loss"]) for rate in rates]
        found.append(statistics.fmean(losses) - min(losses))
    return found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and half range."""
    if not values:
        return "-"
    text = f"{statistics.fmean(values):.{digits}f}"
    return text + (f" ± {(max(values) - min(values)) / 2:.{digits}f}" if len(values) > 1 else "")

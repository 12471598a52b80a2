"""Gaps of a log: steps that its own logging interval says should be there."""

from typing import TYPE_CHECKING

from surefoot.runs.gaps import tell

if TYPE_CHECKING:
    import polars

REGULAR = 0.75
"""Share of the steps between rows that must be the same for the others to count as gaps."""
FEWEST = 8
"""Rows below which a log has no interval."""


def gaps_of(frame: "polars.DataFrame") -> tuple[str, ...]:
    """One sentence on the steps that are missing, e.g. ``rows of steps 5 to 8 are missing``.

    Rows without a training metric (of a validation only) say nothing of the interval.
    """
    import numpy as np
    import polars as pl

    if "loss" in frame.columns:
        rows = frame.filter(pl.any_horizontal(_training(frame)))
    else:
        rows = frame
    steps = rows["step"].to_numpy()
    if len(steps) < FEWEST:
        return ()
    jumps = np.diff(steps)
    interval, counts = np.unique(jumps, return_counts=True)
    usual = int(interval[counts.argmax()])
    if counts.max() < REGULAR * len(jumps):
        return ()
    # A trainer that logs every tenth step may log the first one, too: 1, 10, 20 has no gap.
    wide = np.flatnonzero(jumps > usual)
    return tell(
        [
            (int(steps[i]) + usual, int(steps[i + 1]) - usual)
            for i in wide
            if _is_gap(int(steps[i]), int(steps[i + 1]), usual)
        ]
    )


def _is_gap(before: int, after: int, usual: int) -> bool:
    """Whether at least one step of the interval lies between, beyond a last or first odd row."""
    return before + usual <= after - usual


def _training(frame: "polars.DataFrame") -> "list[polars.Expr]":
    import polars as pl

    names = [n for n in ("loss", "grad_norm", "learning_rate", "step_time") if n in frame.columns]
    return [pl.col(name).is_not_null() for name in names]

"""Rows that are missing: steps of the winning history that a run must have recorded and has not.

A row of every step is what surefoot's own trainer writes; another writer may record every tenth
step, and nothing is missing then. So a run is judged by itself: only if at least three of four of
its rows follow the row of the step before (the first one: step 1) are its other jumps gaps. A run
without a row is judged too, as soon as its ledger says that it had come further.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from surefoot.records import Event

if TYPE_CHECKING:
    import polars

Span: TypeAlias = tuple[int, int]
"""First and last step of a gap, both missing."""

TOLD = "rows of step"
"""How the sentence begins that :func:`tell` makes; no other problem of a run begins so."""

CONSECUTIVE = 0.75
"""Share of the rows that must follow the step before, for the others to count as gaps."""

MOST_SPANS = 8
"""Gaps that are named; of more, the rest is counted."""


def missing(steps: "polars.Series", reached: int) -> list[Span]:
    """The gaps in the rows of a run.

    Args:
        steps: of the rows of the winning history, increasing, each once.
        reached: the step through which rows must be there, whatever the newest row is; 0 if
            nothing says so.
    """
    import numpy as np

    taken = steps.to_numpy()
    before = np.concatenate(([0], taken))  # the first step is 1
    jumps = np.diff(before)
    if len(taken) and (jumps == 1).mean() < CONSECUTIVE:
        return []
    spans = [(int(before[i]) + 1, int(taken[i]) - 1) for i in np.flatnonzero(jumps > 1)]
    newest = int(before[-1])
    return [*spans, *([(newest + 1, reached)] if reached > newest else [])]


def tell(spans: Sequence[Span]) -> tuple[str, ...]:
    """One sentence on all gaps, e.g. ``rows of steps 5 to 8 and 13 are missing``; none if none."""
    if not spans:
        return ()
    named = [str(a) if a == b else f"{a} to {b}" for a, b in spans[:MOST_SPANS]]
    if len(spans) > MOST_SPANS:
        named.append(f"{len(spans) - MOST_SPANS:,} more stretches")
    several = "s" if len(spans) > 1 or spans[0][0] != spans[0][1] else ""
    joined = " and ".join([", ".join(named[:-1]), named[-1]] if named[1:] else named)
    return (f"{TOLD}{several} {joined} are missing",)


def reached(events: Iterable[Event], attempt: int) -> int:
    """The step through which the ledger says that rows were durable; 0 if it does not.

    Rows are flushed before a checkpoint is committed, and kept through the step of a resume. Only
    the newest ``attempt`` counts: what an earlier one made beyond was given up.
    """
    kinds = ("checkpoint", "resumed")
    steps = [e.step for e in events if e.kind in kinds and e.attempt == attempt]
    return max((step for step in steps if step is not None), default=0)

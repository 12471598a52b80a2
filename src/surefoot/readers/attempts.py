"""Attempts: where a run was started again, which rows won, and whether the overlap repeats."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

BACK = 2
"""Steps by which a line of another rank may lag behind without meaning a restart."""


class Attempts:
    """Tells, point by point, of which attempt a point is. A step that goes back begins a new one.

    Where lines of many ranks are mixed, each rank is followed by itself, so that one which lags
    begins nothing; ranks that are not told apart are known by steps that come twice in a row.
    """

    def __init__(self) -> None:
        self.current = 0
        self._last: dict[int | None, int] = {}
        self._attempt: dict[int | None, int] = {}
        self._resumed = False
        self._echoes = False

    def resumed(self) -> None:
        """A line says that what comes next follows a checkpoint."""
        self._resumed = bool(self._last)

    def place(self, step: int, rank: int | None, *, same: bool | None, evaluation: bool) -> int:
        """The attempt of a point.

        Args:
            step: of the point.
            rank: of the point, if known.
            same: whether a row of that step is at hand and its loss is the point's; None if there
                is no such row, or either has no loss.
            evaluation: a validation result, which begins no attempt.
        """
        if evaluation and not self._resumed:
            return self._attempt.get(rank, self.current)
        last = self._last.get(rank)
        if self._resumed:
            self._resumed = False
            self.current += 1
            self._attempt[rank] = self.current
        elif last is not None and step <= last:
            if self._repeats(step, last, rank, same):
                return self._attempt.get(rank, self.current)
            # A rank that comes later joins the attempt that another has begun.
            self.current += int(self._attempt.get(rank, self.current) == self.current)
            self._attempt[rank] = self.current
        return self.went_on(step, rank)

    def goes_on(self, step: int, rank: int | None) -> bool:
        """Whether a row of this step would simply come after what this rank told last."""
        last = self._last.get(rank)
        return not self._resumed and (last is None or step > last)

    def went_on(self, step: int, rank: int | None) -> int:
        """Rows of rising steps up to ``step``, the first of which goes on: their attempt."""
        self._last[rank] = step
        # A rank that lags goes on in its own attempt, though another may have begun a new one.
        return self._attempt.setdefault(rank, self.current)

    def _repeats(self, step: int, last: int, rank: int | None, same: bool | None) -> bool:
        """Whether a step that does not go on is more of a record that is there already."""
        if last - step > BACK:
            return False
        if rank is not None:
            return step == last and same is not False
        if same or (step == last and same is False):
            self._echoes = True  # several ranks write here, and do not say which
            return True
        return step == last or self._echoes


def winning(frame: "polars.DataFrame") -> tuple["polars.DataFrame", "polars.DataFrame"]:
    """(winning history sorted by step, rows that a later attempt went over).

    Args:
        frame: columns ``step`` and ``attempt``, each pair once.
    """
    import polars as pl

    if not len(frame) or frame["attempt"].max() == 0:
        return (frame if frame["step"].is_sorted() else frame.sort("step")), frame.clear()
    begins = frame.group_by("attempt").agg(pl.col("step").min().alias("begin")).sort("attempt")
    if not _in_order(frame):
        frame = frame.sort("attempt", "step")
    # Slices of a frame in order are views: no row of a long log is copied.
    lowest: int | None = None
    kept, lost, end = [], [], len(frame)
    for attempt, first in reversed(begins.rows()):
        begin = int(frame["attempt"].search_sorted(attempt, side="left"))
        rows = frame[begin:end]
        wins = len(rows) if lowest is None else int(rows["step"].search_sorted(lowest, side="left"))
        kept.append(rows[:wins])
        lost.append(rows[wins:])
        lowest, end = first if lowest is None else min(lowest, first), begin
    return (
        pl.concat(reversed(kept), rechunk=False),
        pl.concat(reversed(lost), rechunk=False),
    )


def _in_order(frame: "polars.DataFrame") -> bool:
    steps, attempts = frame["step"].to_numpy(), frame["attempt"].to_numpy()
    later = attempts[1:] > attempts[:-1]
    return bool((later | (attempts[1:] == attempts[:-1]) & (steps[1:] > steps[:-1])).all())


def without_strays(
    frame: "polars.DataFrame",
) -> tuple["polars.DataFrame", tuple[str, ...]]:
    """The frame without records that stand alone, and a sentence on each.

    A record of an old step in the midst of a run (a line written late, quoted, or damaged) is no
    restart if the next one goes on where the run had been: else it would discard all between.

    Args:
        frame: columns ``step`` and ``attempt``, rows in the order of the file.
    """
    import numpy as np
    import polars as pl

    if not len(frame) or frame["attempt"].max() == 0:
        return frame, ()
    steps, attempts = frame["step"].to_numpy(), frame["attempt"].to_numpy().copy()
    begins = np.flatnonzero(attempts[1:] > attempts[:-1]) + 1
    keep = np.ones(len(frame), bool)
    told = []
    for begin in begins.tolist():
        before, here = int(steps[begin - 1]), int(steps[begin])
        if begin + 1 >= len(steps) or attempts[begin + 1] != attempts[begin] or begin < 2:
            continue
        interval = max(1, before - int(steps[begin - 2]))
        after = int(steps[begin + 1])
        if here <= before < after <= before + 2 * interval and after - here > 4 * interval:
            keep[begin] = False
            attempts[begin:] -= 1
            told.append(f"a record of step {here} between steps {before} and {after} is left out")
    if not told:
        return frame, ()
    numbered = frame.with_columns(pl.Series("attempt", attempts))
    return numbered.filter(pl.Series(keep)), tuple(told[:8])


def overlaps(frame: "polars.DataFrame") -> list[dict[str, Any]]:
    """How the losses of steps that two successive attempts share compare.

    Returns:
        For each pair with common steps: ``attempts``, ``steps`` (first, last), ``count``,
        ``equal`` (losses equal as printed), ``first_different`` step and ``largest`` difference.
    """
    import polars as pl

    found: list[dict[str, Any]] = []
    if "loss" not in frame.columns or not len(frame) or frame["attempt"].max() == 0:
        return found
    rows = frame.select("attempt", "step", "loss").drop_nulls("loss")
    numbers = rows["attempt"].unique().sort().to_list()
    for later in numbers[1:]:
        new = rows.filter(pl.col("attempt") == later)
        first, last = new["step"].min(), new["step"].max()
        old = rows.filter((pl.col("attempt") < later) & pl.col("step").is_between(first, last))
        old = old.sort("attempt")
        old = old.unique("step", keep="last", maintain_order=True)
        both = new.join(old, on="step", suffix="_old").sort("step")
        if not len(both):
            continue
        a, b = both["loss"], both["loss_old"]
        unlike = both.filter(~((a == b) | (a.is_nan() & b.is_nan())))
        largest = (unlike["loss"] - unlike["loss_old"]).abs().max() if len(unlike) else 0.0
        found.append(
            {
                "attempts": [int(both["attempt_old"].max()), later],  # type: ignore[arg-type]
                "steps": [int(both["step"][0]), int(both["step"][-1])],
                "count": len(both),
                "equal": not len(unlike),
                "first_different": int(unlike["step"][0]) if len(unlike) else None,
                "largest": float(largest),  # type: ignore[arg-type]
            }
        )
    return found

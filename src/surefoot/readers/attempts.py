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
        elif last is not None and step <= last:
            if self._repeats(step, last, rank, same):
                return self._attempt.get(rank, self.current)
            # A rank that comes later joins the attempt that another has begun.
            self.current += int(self._attempt.get(rank, self.current) == self.current)
        self._last[rank] = step
        self._attempt[rank] = self.current
        return self.current

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
    limit: dict[int, int | None] = {}
    lowest: int | None = None
    for attempt, begin in reversed(begins.rows()):
        limit[attempt] = lowest
        lowest = begin if lowest is None else min(lowest, begin)
    bounds = pl.DataFrame(
        {"attempt": list(limit), "__limit": list(limit.values())},
        schema={"attempt": frame.schema["attempt"], "__limit": pl.Int64},
    )
    joined = frame.join(bounds, on="attempt", how="left", maintain_order="left")
    wins = pl.col("__limit").is_null() | (pl.col("step") < pl.col("__limit"))
    kept = joined.filter(wins).drop("__limit").sort("step")
    return kept, joined.filter(~wins).drop("__limit").sort("attempt", "step")


def overlaps(frame: "polars.DataFrame") -> list[dict[str, Any]]:
    """How the losses of steps that two successive attempts share compare.

    Returns:
        For each pair with common steps: ``attempts``, ``steps`` (first, last), ``count``,
        ``equal`` (losses equal as printed), ``first_different`` step and ``largest`` difference.
    """
    import polars as pl

    found: list[dict[str, Any]] = []
    if "loss" not in frame.columns:
        return found
    rows = frame.select("attempt", "step", "loss").drop_nulls("loss")
    numbers = rows["attempt"].unique().sort().to_list()
    for later in numbers[1:]:
        new = rows.filter(pl.col("attempt") == later)
        old = rows.filter(pl.col("attempt") < later).sort("attempt")
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

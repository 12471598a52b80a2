"""Runs: stretches of records in which a signal is out of its band, and where they began.

A run opens as a suspicion when a signal leaves its band of 3.5 noise units (wider for a heavy tail)
and ends when it has been back for more than three of its records. It is *confirmed* once its score
reached 1. So a confirmed run is traced back, without a memory of the records, to where the signal
left its band and not to where it passed the threshold. The newest confirmed run of each signal is
kept when it has ended, until the next one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.detect.courses import (
    COUNT,
    EDGE,
    EXPECTED,
    Courses,
    Vector,
    packed,
    unpacked,
)

Columns = npt.NDArray[np.intp]

GAP = 3
# Rows: of the present run, then of the newest confirmed one.
(START, END, GAPS, SCORE, PEAK, PEAK_STEP, BEFORE, TREND, FIRST, RECORDS, LASTED) = range(11)
WIDTH = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch out of the band; values on the signal's own scale.

    Attributes:
        start: first step out of the band.
        end: newest step out of it.
        score: largest distance in units of the threshold, signed.
        peak: the value there.
        peak_step: its step.
        before: where the signal was expected when the run began.
        trend: its trend then.
        first: its first value out of the band.
        records: values seen before.
        is_open: whether it had not ended with the newest record.
    """

    start: int
    end: int
    score: float
    peak: float
    peak_step: int
    before: float
    trend: float
    first: float
    records: int
    is_open: bool


class Runs:
    """The present and the newest confirmed run of each of N signals."""

    def __init__(self) -> None:
        self.present: Vector = np.zeros((WIDTH, 0))
        self.kept: Vector = np.zeros((WIDTH, 0))
        self.active = False

    def grow(self, number: int) -> None:
        """Add so many signals."""
        empty = np.full((WIDTH, number), np.nan)
        self.present = np.concatenate([self.present, empty], axis=1)
        self.kept = np.concatenate([self.kept, empty], axis=1)

    def update(
        self,
        columns: Columns,
        step: int,
        values: Vector,
        distances: Vector,
        scores: Vector,
        sure: npt.NDArray[np.bool_],
        courses: Courses,
        trend: Vector | None = None,
    ) -> Columns:
        """Take up a record.

        Args:
            columns: of the signals present (n,).
            step: of the record.
            values: theirs (n,).
            distances: from where they were expected, in noise units (n,).
            scores: in units of their thresholds, signed (n,).
            sure: whether the score is that of two values in a row, or absurd (n,).
            courses: of all signals, before they learned this record.
            trend: theirs (N,), if known.

        Returns:
            The signals that are out for sure now and were not before.
        """
        edge = courses.rows[EDGE, columns]
        out = (np.abs(distances) >= edge) | (np.abs(scores) >= 1.0)
        running = self.present[START, columns] == self.present[START, columns]
        if self.active and running.any():
            back = columns[running & ~out]
            self.present[GAPS, back] += 1.0
            self._close(back[self.present[GAPS, back] > GAP])
        if out.any():
            new = out & ~running
            if new.any():
                self._begin(columns[new], step, values[new], courses, trend)
            which = columns[out]
            self._extend(which, step, values[out], scores[out])
            self.active = True
            opened: Columns = columns[sure & (self.present[LASTED, columns] == 0.0)]
            self.present[LASTED, opened] = 1.0
            return opened
        if self.active:
            self.active = bool((self.present[START] == self.present[START]).any())
        nothing: Columns = columns[:0]
        return nothing

    def _begin(
        self, columns: Columns, step: int, values: Vector, courses: Courses, trend: Vector | None
    ) -> None:
        present = self.present
        present[START, columns] = step
        present[SCORE, columns] = 0.0
        present[LASTED, columns] = 0.0
        present[BEFORE, columns] = courses.rows[EXPECTED, columns]
        present[TREND, columns] = 0.0 if trend is None else trend[columns]
        present[FIRST, columns] = values
        present[RECORDS, columns] = courses.rows[COUNT, columns]

    def _extend(self, columns: Columns, step: int, values: Vector, scores: Vector) -> None:
        present = self.present
        present[END, columns] = step
        present[GAPS, columns] = 0.0
        further = np.abs(scores) >= np.abs(present[SCORE, columns])
        there = columns[further]
        present[SCORE, there] = scores[further]
        present[PEAK, there] = values[further]
        present[PEAK_STEP, there] = step

    def _close(self, columns: Columns) -> None:
        confirmed = columns[np.abs(self.present[SCORE, columns]) >= 1.0]
        self.kept[:, confirmed] = self.present[:, confirmed]
        self.present[:, columns] = np.nan

    def end(self, columns: Columns) -> None:
        """End the present runs of these signals: their level is a new one."""
        self._close(columns[self.present[START, columns] == self.present[START, columns]])

    def forget_from(self, step: int) -> None:
        """Forget runs that began at ``step`` or later: the run went back to before it."""
        for rows in (self.present, self.kept):
            with np.errstate(invalid="ignore"):
                rows[:, rows[START] >= step] = np.nan

    def lasting(self, columns: Columns, step: int, span: float) -> Columns:
        """Those of ``columns`` whose present run is confirmed and began ``span`` steps ago."""
        start = self.present[START, columns]
        old = (step - start >= span) & (np.abs(self.present[SCORE, columns]) >= 1.0)
        found: Columns = columns[old]
        return found

    def newest(self, column: int, *, since: int) -> Run | None:
        """The confirmed or open run of a signal that reached ``since`` or later."""
        for rows, is_open in ((self.present, True), (self.kept, False)):
            if rows[END, column] >= since:
                return _run(rows[:, column], is_open)
        return None

    def confirmed(self, *, since: float) -> list[tuple[int, int, int, float]]:
        """``(column, start, end, score)`` of confirmed runs that reached ``since`` or later."""
        found = []
        for rows in (self.present, self.kept):
            near = (rows[END] >= since) & (np.abs(rows[SCORE]) >= 1.0)
            for column in np.flatnonzero(near):
                start, end, score = rows[START, column], rows[END, column], rows[SCORE, column]
                found.append((int(column), int(start), int(end), float(score)))
        return found

    def suspected(self, *, since: float) -> list[tuple[int, int, float]]:
        """``(column, start, score)`` of present runs, not confirmed, that reached ``since``."""
        rows = self.present
        near = (rows[END] >= since) & (np.abs(rows[SCORE]) < 1.0)
        return [
            (int(column), int(rows[START, column]), float(rows[SCORE, column]))
            for column in np.flatnonzero(near)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "present": packed(self.present),
            "kept": packed(self.kept),
            "active": self.active,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        self.present = unpacked(state["present"], WIDTH)
        self.kept = unpacked(state["kept"], WIDTH)
        self.active = state["active"]


def _run(numbers: Vector, is_open: bool) -> Run:
    return Run(
        start=int(numbers[START]),
        end=int(numbers[END]),
        score=float(numbers[SCORE]),
        peak=float(numbers[PEAK]),
        peak_step=int(numbers[PEAK_STEP]),
        before=float(numbers[BEFORE]),
        trend=float(numbers[TREND]),
        first=float(numbers[FIRST]),
        records=int(numbers[RECORDS]),
        is_open=is_open,
    )

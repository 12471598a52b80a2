"""What a bank of signals can be asked: facts, the strongest signals, the earliest one."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from surefoot.detect.announced import Announced
from surefoot.detect.courses import COUNT, EXPECTED, LAST, LAST_Z, SINCE, SINGLE, Courses
from surefoot.detect.evidence import SignalFacts
from surefoot.detect.runs import Run, Runs
from surefoot.detect.transforms import Kind, natural

Columns = npt.NDArray[np.intp]

NEAR = 32
CHAIN = 5
"""Records that may lie between two runs of one trouble: more would join it to what came before."""
TOGETHER, TOGETHER_SCORE, TOGETHER_RECORDS = 3, 0.6, 3


class Answers:
    """The state of a bank of signals, and what can be read from it.

    Args:
        places: names of the places of each per-place signal.
        rate: false alarms a record, over all signals together.
    """

    def __init__(self, places: Mapping[str, tuple[str, ...]], rate: float) -> None:
        self.places = {name: tuple(names) for name, names in places.items()}
        self.announced = Announced()
        self.every = 1.0
        self._courses = Courses(rate)
        self._runs = Runs()
        self._names: list[str] = []
        self._kinds: list[Kind] = []
        self._column: dict[str, int] = {}
        self._zeroed: dict[int, int] = {}
        self._nonfinite: dict[int, tuple[int, int]] = {}
        self._step: int | None = None

    def relevel(self) -> None:
        """Take the newest values of all signals for their level: a shift is confirmed, or over."""
        columns = np.arange(self._courses.size)
        self._runs.end(columns)
        self._courses.level_again(columns)

    def names(self) -> tuple[str, ...]:
        """The signals seen so far, in order of appearance."""
        return tuple(self._names)

    def facts(self, name: str, *, since: int) -> SignalFacts | None:
        """How a signal behaved since a step; None if it was never seen.

        Args:
            name: of a scalar, or of a signal at a place.
            since: the onset.
        """
        column = self._column.get(name)
        return None if column is None else self._facts(column, since)

    def run(self, name: str, *, since: int) -> Run | None:
        """The newest run of a signal out of its band that reached ``since`` or later, or None."""
        column = self._column.get(name)
        return None if column is None else self._runs.newest(column, since=since)

    def strongest(
        self, number: int, *, since: int, places: bool | None = None
    ) -> tuple[SignalFacts, ...]:
        """Facts of the signals that left their band since a step, strongest first.

        Args:
            number: at most so many.
            since: the onset.
            places: True for signals at places only, False for scalars only.
        """
        found = {column: abs(score) for column, _, _, score in self._runs.confirmed(since=since)}
        for column, _, score in self._runs.suspected(since=since):
            found.setdefault(column, abs(score))
        ordered = sorted(found, key=lambda column: (-found[column], column))
        if places is not None:
            ordered = [column for column in ordered if ("@" in self._names[column]) is places]
        return tuple(self._facts(column, since) for column in ordered[:number])

    def place_count(self, *, since: int) -> dict[str, tuple[int, int]]:
        """By per-place signal: places that left their band since a step, and places there are."""
        total: dict[str, int] = {}
        for name in self._names:
            signal, at, _ = name.partition("@")
            if at:
                total[signal] = total.get(signal, 0) + 1
        out = dict.fromkeys(total, 0)
        for column in {column for column, *_ in self._runs.confirmed(since=since)}:
            signal, at, _ = self._names[column].partition("@")
            if at:
                out[signal] += 1
        return {signal: (out[signal], total[signal]) for signal in total}

    def zero_places(self, *, since: int) -> tuple[str, ...]:
        """Signals whose first exact zero came at ``since`` or later."""
        return tuple(self._names[column] for column, step in self._zeroed.items() if step >= since)

    def trend(self, name: str) -> tuple[float, int | None]:
        """Change of a signal over 100 records in noise units, and since when it has drifted so."""
        column = self._column.get(name)
        if column is None:
            return 0.0, None
        since = self._courses.rows[SINCE, column]
        return float(self._courses.trend()[column]), int(since) if since == since else None

    def earliest(self, *, since: int, until: int) -> tuple[int, str] | None:
        """The first step at which a signal left its course, and the signal: for the onset.

        Only runs count that reached the threshold, or that three signals began together, and only
        those connected with ``until`` by runs at most 5 records apart: a lone outlier long before
        an alarm is a coincidence.

        Args:
            since: the first step that is looked at.
            until: of the alarm.
        """
        found = [
            (start, end, column) for column, start, end, _ in self._runs.confirmed(since=since)
        ]
        found += self._together(since)
        first, leader = until + 1, -1
        frontier, near = float(until), CHAIN * self.every
        for start, end, column in sorted(found, key=lambda run: -run[1]):
            if end < frontier - near:
                break
            if start < first or (start == first and column < leader):
                first, leader = start, column
            frontier = min(frontier, float(start))
        return None if leader < 0 else (max(first, since), self._names[leader])

    def _together(self, since: int) -> list[tuple[int, int, int]]:
        """Suspected runs that three different signals began at about the same time."""
        runs = sorted(
            (start, column)
            for column, start, score in self._runs.suspected(since=since)
            if abs(score) >= TOGETHER_SCORE
        )
        found = []
        for start, column in runs:
            near = {
                self._names[other].partition("@")[0]
                for begun, other in runs
                if abs(begun - start) <= TOGETHER_RECORDS * self.every
            }
            if len(near) >= TOGETHER:
                found.append((start, self._step or start, column))
        return found

    def _facts(self, column: int, since: int) -> SignalFacts:
        kind, rows = self._kinds[column], self._courses.rows
        rate = self.announced.log_rate
        run = self._runs.newest(column, since=since)
        last = rows[LAST, column]
        newest = self._courses.values[: self._courses.filled, column]
        newest = newest[newest == newest]
        if len(newest):
            last = newest[-1]
        first_odd, last_odd = self._nonfinite.get(column, (None, -1))
        if run is None:
            before, first, peak, trend = (
                rows[EXPECTED, column],
                last,
                last,
                self.trend(self._names[column])[0],
            )
            score = float(rows[LAST_Z, column] / rows[SINGLE, column])
            peak_step, out, count = self._step or since, None, rows[COUNT, column]
        else:
            before, first, peak, trend = run.before, run.first, run.peak, run.trend
            score, peak_step, out, count = run.score, run.peak_step, run.start, run.records
        return SignalFacts(
            name=self._names[column],
            before=natural(kind, float(before), rate),
            at_onset=natural(kind, float(first), rate),
            extreme=natural(kind, float(peak), rate),
            extreme_step=int(peak_step),
            last=natural(kind, float(last), rate),
            score=float(score),
            out_since=out,
            trend=float(trend),
            nonfinite_step=first_odd if last_odd >= since else None,
            records=int(count),
        )

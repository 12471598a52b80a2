"""The bank of signals: where every signal but the loss runs, and which of them have left.

One object follows all scalars and all places, tens or thousands, at a cost that hardly depends on
their number. How far out a value must be follows from a stated rate of false alarms over all of
them together, see :mod:`surefoot.detect.tails`.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.detect.announced import RECORDS
from surefoot.detect.answers import NEAR, Answers
from surefoot.detect.courses import (
    COUNT,
    EXPECTED,
    INVERSE,
    LAST_Z,
    PAIR,
    QUIET,
    SINGLE,
    Vector,
)
from surefoot.detect.layout import Layout, number_of
from surefoot.detect.runs import SCORE, START
from surefoot.detect.scores import Outlier, Scores
from surefoot.detect.transforms import RATE, Kind, kind_of, natural
from surefoot.records import StepRecord

Columns = npt.NDArray[np.intp]

FORMAT = 1
ABSURD = math.log(100.0)
LASTING = 40
REWOUND = 50
QUIET_GAIN = 0.3
AFTER = 16
TOLD = 32


_CALM = Scores()


class SignalBank(Answers):
    """Robust courses of all signals but the loss, fed a record at a time.

    ::

        bank = SignalBank({"grad_norm": ("embedding.weight", "layers.0.attention.wq.weight")})
        scores = bank.update(record)
        if scores.opened:
            print(scores.name, bank.facts(scores.name, since=record.step))

    O(1) in time and memory a record; deterministic. Spans are counted in records.

    Args:
        places: names of the places of each per-place signal, in the order of its arrays; places
            without names are numbered.
        false_alarms_per_10k: records in 10 000 on which an outlier may be confirmed in a healthy
            run, over all signals together.
    """

    def __init__(
        self,
        places: Mapping[str, tuple[str, ...]] | None = None,
        *,
        false_alarms_per_10k: float = 0.2,
    ) -> None:
        if not 0.0 < false_alarms_per_10k <= 1000.0:
            raise ValueError(
                "expected false_alarms_per_10k above 0 and at most 1000, "
                f"got {false_alarms_per_10k}"
            )
        super().__init__(places or {}, false_alarms_per_10k / 10_000.0)
        self.false_alarms_per_10k = false_alarms_per_10k
        self._log: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._alarms: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._quiet = False
        self._learning = True
        self._attempt = 0
        self._records = 0
        self._layouts: dict[Any, Layout] = {}

    # ---- a record -------------------------------------------------------------------------------

    def update(self, record: StepRecord, *, learn: bool = True) -> Scores:
        """Judge the next record, and learn it.

        Args:
            record: its scalars and places; what is absent is no trouble.
            learn: False while an incident is open: courses stand still. When it becomes True
                again all signals go on from where they are, as after :meth:`relevel`.
        """
        step = record.step
        self._arrive(record)
        changes = self.announced.update(record.values)
        if learn and not self._learning:
            self.relevel()
            self._hush(("resumed",))
        self._learning = learn
        if changes:
            self._hush(changes)
        layout = self._layout(record)
        if not len(layout.columns):
            return Scores(changes=changes) if changes else _CALM
        values, good = layout.vector(record.values, record.places, self.announced.log_rate)
        courses = self._courses
        if good and learn and not (layout.fresh or self._quiet or self._runs.active):
            index = layout.index
            distances = values - courses.rows[EXPECTED, index]
            distances *= courses.rows[INVERSE, index]
            if len(values) < 64:
                sizes = distances.tolist()
                top = max(max(sizes), -min(sizes))
            else:
                top = float(np.abs(distances).max())
            if top < courses.calm:
                courses.learn(index, distances, clip=False)
                courses.note(index, values, distances, step=step, speed=self.announced.speed)
                return Scores(changes=changes) if changes else _CALM
        return self._judge(record, layout, values, good, learn, changes)

    def _arrive(self, record: StepRecord) -> None:
        step, last = record.step, self._step
        if last is not None:
            if step > last:
                self._records += 1
                distance = min(step - last, 4.0 * self.every) if self._records > 8 else step - last
                self.every += (distance - self.every) / min(self._records, 32)
            else:  # rewound: what began later did not happen in this history
                self._runs.forget_from(step)
                if last - step > REWOUND * self.every:
                    self._hush(("rewound",))
        self._step, self._attempt = step, record.attempt

    def _hush(self, changes: tuple[str, ...]) -> None:
        """Re-level quietly what these changes may move."""
        quiet = self._courses.rows[QUIET]
        for change in changes:
            records = RECORDS.get(change, AFTER)
            for column, kind in enumerate(self._kinds):
                if change in kind.moved_by or change not in RECORDS:
                    quiet[column] = max(quiet[column], records)
        self._quiet = True

    def _layout(self, record: StepRecord) -> Layout:
        key: Any = tuple(record.values)
        if record.places:
            key = (key, tuple((name, number_of(array)) for name, array in record.places.items()))
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= 64:
                self._layouts.clear()
            layout = self._layouts[key] = self._new_layout(record)
        return layout

    def _new_layout(self, record: StepRecord) -> Layout:
        scalars = [(name, kind) for name in record.values if (kind := kind_of(name)) is not None]
        plain = [(name, kind) for name, kind in scalars if not kind.log]
        rates = [(name, kind) for name, kind in scalars if kind.log and kind.per_rate]
        logs = [(name, kind) for name, kind in scalars if kind.log and not kind.per_rate]
        ordered = plain + logs + rates
        names = [name for name, _ in ordered]
        kinds = [kind for _, kind in ordered]
        places = []
        for signal, array in record.places.items():
            kind, number = kind_of(signal), number_of(array)
            if kind is None or not number:
                continue
            known = self.places.get(signal, ())
            if len(known) != number:
                known = tuple(str(place) for place in range(number))
            places.append((signal, kind, number))
            names += [f"{signal}@{place}" for place in known]
            kinds += [kind] * number
        self._add(names, kinds)
        columns = np.array([self._column[name] for name in names], dtype=np.intp)
        count = len(columns)
        whole = count == self._courses.size and bool((columns == np.arange(count)).all())
        return Layout(
            plain=tuple(name for name, _ in plain),
            logs=tuple(name for name, _ in logs),
            rates=tuple(name for name, _ in rates),
            kinds=tuple(kind for _, kind in ordered),
            places=tuple(places),
            columns=columns,
            index=slice(None) if whole else columns,
        )

    def _add(self, names: list[str], kinds: list[Kind]) -> None:
        new = [
            (name, kind)
            for name, kind in zip(names, kinds, strict=True)
            if name not in self._column
        ]
        if not new:
            return
        for name, kind in new:
            self._column[name] = len(self._names)
            self._names.append(name)
            self._kinds.append(kind)
        self._grow([kind for _, kind in new])
        self._layouts.clear()  # one that was the whole is now a part

    def _grow(self, kinds: list[Kind]) -> None:
        self._log = np.concatenate([self._log, np.array([kind.log for kind in kinds])])
        self._alarms = np.concatenate([self._alarms, np.array([kind.alarms for kind in kinds])])
        self._runs.grow(len(kinds))
        self._courses.grow(
            np.array([kind.floor for kind in kinds]),
            np.array([kind.prior for kind in kinds]),
            np.array([float(RATE in kind.moved_by) for kind in kinds]),
        )

    # ---- the judgement of a record that is not plainly calm -------------------------------------

    def _judge(
        self,
        record: StepRecord,
        layout: Layout,
        values: Vector,
        good: bool,
        learn: bool,
        changes: tuple[str, ...],
    ) -> Scores:
        step, courses, runs = record.step, self._courses, self._runs
        columns, rows = layout.columns, self._courses.rows
        zeros: tuple[str, ...] = ()
        nonfinite: tuple[str, ...] = ()
        if not good:
            finite = np.isfinite(values)
            zeros, nonfinite = self._odd(record, layout, np.flatnonzero(~finite), step)
            columns, values = columns[finite], values[finite]
        if layout.fresh:
            new = rows[COUNT, columns] == 0.0
            if new.any():
                courses.start(columns[new], values[new])
            layout.fresh = bool((rows[COUNT, layout.columns] == 0.0).any())
        raw = values - rows[EXPECTED, columns]
        distances = raw * rows[INVERSE, columns]
        scores, sure = self._scores(columns, raw, distances)
        trend = courses.trend() if np.abs(scores).max(initial=0.0) >= 0.3 else None
        opened = runs.update(columns, step, values, distances, scores, sure, courses, trend)
        after = np.abs(runs.present[SCORE, columns]) >= 1.0
        if learn:
            self._learn(columns, values, raw, distances, after)
        speed = self.announced.speed
        courses.note(columns, values, distances, step=step, speed=speed, learned=learn)
        if learn and after.any():
            settled = runs.lasting(columns, step, LASTING * self.every)
            if len(settled):
                runs.end(settled)
                courses.level_again(settled)
        if self._quiet:
            last = rows[LAST_Z, columns]
            rows[LAST_Z, columns] = np.where(last == last, last, 0.0)
            rows[QUIET, columns] = np.maximum(rows[QUIET, columns] - 1.0, 0.0)
            self._quiet = bool(rows[QUIET].any())
        sizes = np.abs(scores)
        best = int(sizes.argmax()) if len(sizes) else -1
        out = np.flatnonzero(sizes >= 1.0)
        far = out[np.argsort(-sizes[out], kind="stable")][:TOLD]
        return Scores(
            top=float(sizes[best]) if best >= 0 else 0.0,
            name=self._names[columns[best]] if best >= 0 else "",
            out=len(out),
            outliers=tuple(
                self._outlier(int(columns[i]), float(scores[i]), float(values[i])) for i in far
            ),
            opened=tuple(self._names[column] for column in opened[:TOLD]),
            zeros=zeros,
            nonfinite=nonfinite,
            changes=changes,
        )

    def _scores(
        self, columns: Columns, raw: Vector, distances: Vector
    ) -> tuple[Vector, npt.NDArray[np.bool_]]:
        """In units of each signal's threshold, signed (n,), and which of them are sure (n,)."""
        rows = self._courses.rows
        sizes, before = np.abs(distances), rows[LAST_Z, columns]
        both = np.where(distances * before > 0.0, np.minimum(sizes, np.abs(before)), 0.0)
        both /= rows[PAIR, columns]
        if self._quiet:
            quiet = rows[QUIET, columns] > 0.0
            both[quiet], sizes[quiet] = 0.0, 0.0
        absurd = np.abs(raw) / ABSURD
        absurd[~self._log[columns]] = 0.0
        sure = np.maximum(both, absurd)
        scores = np.maximum(sure, sizes / rows[SINGLE, columns])
        mute = ~self._alarms[columns]
        scores[mute] = np.minimum(scores[mute], 0.99)
        return np.copysign(scores, distances), (sure >= 1.0) & ~mute

    def _learn(
        self,
        columns: Columns,
        values: Vector,
        raw: Vector,
        distances: Vector,
        out: npt.NDArray[np.bool_],
    ) -> None:
        """Move the courses, except of signals that are out: theirs stand still for up to 40."""
        courses, rows = self._courses, self._courses.rows
        quiet = rows[QUIET, columns] > 0.0
        moving = ~(out | quiet)
        if moving.all():
            courses.learn(columns, distances, clip=True)
            return
        courses.learn(columns[moving], distances[moving], clip=True)
        if quiet.any():
            rows[EXPECTED, columns[quiet]] += QUIET_GAIN * raw[quiet]
            distances[quiet] = np.nan  # of noise and tails a jump of the level tells nothing
        distances[out] = np.sign(distances[out]) * np.minimum(np.abs(distances[out]), 1e6)

    def _outlier(self, column: int, score: float, value: float) -> Outlier:
        value = natural(self._kinds[column], value, self.announced.log_rate)
        since = self._runs.present[START, column]  # NaN if it has just become the course
        begun = int(since) if since == since else self._step or 0
        return Outlier(self._names[column], score, value, begun)

    def _odd(
        self, record: StepRecord, layout: Layout, positions: npt.NDArray[np.intp], step: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Signals without a finite value: those that are 0 for the first time, those not finite."""
        zeros: list[str] = []
        nonfinite: list[str] = []
        raw = layout.raw(record.values, record.places)
        for position in positions.tolist():
            column, value = int(layout.columns[position]), raw[position]
            kind, count = self._kinds[column], self._courses.rows[COUNT, column]
            if value is None or count == 0.0:
                continue
            if value == 0.0 and kind.tells_zero:
                if column not in self._zeroed and count >= 16.0:
                    zeros.append(self._names[column])
                self._zeroed.setdefault(column, step)
            elif not math.isfinite(value):
                nonfinite.append(self._names[column])
                first, last = self._nonfinite.get(column, (step, step))
                stale = step - last > 2 * NEAR * self.every
                self._nonfinite[column] = (step if stale else first, step)
        return tuple(zeros[:TOLD]), tuple(nonfinite[:TOLD])

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "false_alarms_per_10k": self.false_alarms_per_10k,
            "places": {name: list(names) for name, names in self.places.items()},
            "names": list(self._names),
            "announced": self.announced.state_dict(),
            "courses": self._courses.state_dict(),
            "runs": self._runs.state_dict(),
            "quiet": self._quiet,
            "learning": self._learning,
            "zeroed": [list(pair) for pair in self._zeroed.items()],
            "nonfinite": [[column, *steps] for column, steps in self._nonfinite.items()],
            "step": self._step,
            "attempt": self._attempt,
            "records": self._records,
            "every": self.every,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`, settings included.

        Raises:
            ValueError: if it was written in another format.
        """
        if state.get("format") != FORMAT:
            raise ValueError(f"expected bank state of format {FORMAT}, got {state.get('format')!r}")
        places = {name: tuple(names) for name, names in state["places"].items()}
        self.__init__(  # type: ignore[misc]
            places, false_alarms_per_10k=state["false_alarms_per_10k"]
        )
        kinds = [kind_of(name) for name in state["names"]]
        self._add(list(state["names"]), [kind for kind in kinds if kind is not None])
        self.announced.load_state_dict(state["announced"])
        self._courses.load_state_dict(state["courses"])
        self._runs.load_state_dict(state["runs"])
        self._quiet, self._learning = state["quiet"], state["learning"]
        self._zeroed = {column: step for column, step in state["zeroed"]}
        self._nonfinite = {column: (first, last) for column, first, last in state["nonfinite"]}
        self._step, self._attempt, self.every = state["step"], state["attempt"], state["every"]
        self._records = state["records"]

"""The courses of many signals side by side: level, drift, noise, tail and memory of each.

It is the arithmetic of :mod:`surefoot.detect.baseline` for N signals at once, as rows of one
matrix. What it costs is the number of numpy calls, so a record does only what the next one needs
(level and drift); noise, tails and thresholds are learned from blocks of sixteen records.

* Level and drift are an exponential smoothing with trend (Holt 1957): what is judged is the
  distance from where the signal was expected. A distance is clipped at three noise units before it
  moves them, so an outlier that was missed cannot blind the course.
* Noise is a mean absolute distance, each clipped at 2.5 units. Of the tail two quantiles are
  followed, see :mod:`surefoot.detect.tails`.
* While an incident is open nothing is learned.
"""

import base64
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from surefoot.detect.tails import LOG_Q90, LOG_Q99, LOG_Q99_PRIOR, Thresholds

Vector = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp] | slice

BLOCK = 16
KNOWN_FROM = 16
BAND = 3.5
CALM = 3.0
LEVEL_GAIN, DRIFT_GAIN = 0.1, 0.004
NOISE_SPAN = 200
TAIL_FROM = 60
DOUBT = 30.0
SLOW_SPAN = 100.0
DRIFTS_AT = 4.0
_MEAN_ABS_TO_SIGMA = 1.2533
_NOISE_CLIP, _CLIP = 2.5, 3.0

# Rows of the state; DERIVED ones are made of the others at the end of a block.
(EXPECTED, DRIFT, NOISE, MID, HIGH, SLOW, COUNT, MEMORY, LAST, LAST_Z, QUIET, SINCE) = range(12)
(INVERSE, SINGLE, PAIR, EDGE, GAIN, DRIFT_STEP) = range(12, 18)
ROWS = 18


class Courses:
    """State of N signals; all vectors are on the signals' own scales, one entry a signal.

    Args:
        rate: false outliers a record, over all signals together.
    """

    def __init__(self, rate: float) -> None:
        self.rate: Final = rate
        self.rows: Vector = np.zeros((ROWS, 0))
        self.floor: Vector = np.zeros(0)
        self.prior: Vector = np.zeros(0)
        self.with_rate: Vector = np.zeros(0)
        self.values: Vector = np.zeros((BLOCK, 0))
        self.distances: Vector = np.zeros((BLOCK, 0))
        self.filled = 0
        self.blocks = 0
        self.young_until = 64
        self.calm = CALM
        self._laws: Thresholds | None = None

    @property
    def size(self) -> int:
        """Number of signals."""
        return int(self.rows.shape[1])

    def grow(self, floor: Vector, prior: Vector, with_rate: Vector) -> None:
        """Add signals that have appeared.

        Args:
            floor: least noise of each (n,).
            prior: noise assumed of each until 16 values are known (n,).
            with_rate: 1 for a signal that a moving learning rate moves, else 0 (n,).
        """
        rows = np.zeros((ROWS, len(floor)))
        rows[NOISE], rows[MID], rows[HIGH] = prior, LOG_Q90, LOG_Q99_PRIOR
        rows[MEMORY], rows[SINCE] = 0.2, np.nan
        self.rows = np.concatenate([self.rows, rows], axis=1)
        self.floor = np.concatenate([self.floor, floor])
        self.prior = np.concatenate([self.prior, prior])
        self.with_rate = np.concatenate([self.with_rate, with_rate])
        empty = np.full((BLOCK, len(floor)), np.nan)
        self.values = np.concatenate([self.values, empty], axis=1)
        self.distances = np.concatenate([self.distances, empty], axis=1)
        self.young_until = self.blocks + 64
        self.derive(0.0)

    def start(self, index: Index, values: Vector) -> None:
        """First values of signals: their level."""
        self.rows[EXPECTED, index] = values
        self.rows[SLOW, index] = values
        self.rows[LAST, index] = values
        self.rows[COUNT, index] = 0.5  # begun; the first distance is that of the second value

    def learn(self, index: Index, distances: Vector, *, clip: bool) -> None:
        """Move level and drift.

        Args:
            index: of the signals present.
            values: theirs (n,).
            distances: from where they were expected, in noise units (n,).
            clip: whether any distance is beyond three.
        """
        rows = self.rows
        if clip:
            distances = np.minimum(np.maximum(distances, -_CLIP), _CLIP)
        expected = rows[EXPECTED, index]
        drift = rows[DRIFT, index]
        drift += rows[DRIFT_STEP, index] * distances
        expected += rows[GAIN, index] * distances
        expected += drift
        if not isinstance(index, slice):
            rows[EXPECTED, index] = expected
            rows[DRIFT, index] = drift

    def note(
        self,
        index: Index,
        values: Vector,
        distances: Vector,
        *,
        step: int,
        speed: float,
        learned: bool = True,
    ) -> None:
        """Remember a record for the end of the block, and end it if it is full.

        Args:
            index: of the signals present.
            values: theirs (n,).
            distances: from where they were expected (n,).
            step: of the record.
            speed: of the logarithm of the learning rate, a record.
            learned: whether noise and tails may learn from it.
        """
        place = self.filled
        self.values[place, index] = values
        if learned:
            self.distances[place, index] = distances
        self.rows[LAST_Z, index] = distances
        self.filled = place + 1
        if self.filled == BLOCK or self.blocks < self.young_until:
            self._end_block(step, speed)

    def _end_block(self, step: int, speed: float) -> None:
        rows, filled = self.rows, self.filled
        distances = self.distances[:filled]
        sizes = np.abs(distances)
        known = sizes == sizes
        number = known.sum(axis=0)
        sizes[~known] = 0.0
        rows[COUNT] += number
        count = rows[COUNT]
        self._learn_noise(sizes, number, count)
        if filled > 1:
            clipped = np.minimum(np.maximum(distances, -4.0), 4.0)
            products = clipped[1:] * clipped[:-1]
            pairs = products == products
            products[~pairs] = 0.0
            change = products.sum(axis=0) - pairs.sum(axis=0) * rows[MEMORY]
            rows[MEMORY] += change / np.minimum(count + 50.0, 200.0)
        share = number / np.minimum(np.maximum(count, 1.0), SLOW_SPAN)
        rows[SLOW] += (rows[EXPECTED] - rows[SLOW]) * np.minimum(share, 1.0)
        seen = self.values[:filled]
        last = seen[-1] if filled == 1 else _last(seen)
        np.copyto(rows[LAST], last, where=last == last)
        self.derive(speed)
        drifting = np.abs(rows[EXPECTED] - rows[SLOW]) * rows[INVERSE] >= DRIFTS_AT
        rows[SINCE] = np.where(drifting, np.fmin(rows[SINCE], step), np.nan)
        self.filled = 0
        self.blocks += 1
        self.values[:] = np.nan
        self.distances[:] = np.nan

    def _learn_noise(self, sizes: Vector, number: npt.NDArray[np.intp], count: Vector) -> None:
        rows = self.rows
        high = (sizes > np.exp(rows[HIGH])).sum(axis=0)
        mid = (sizes > np.exp(rows[MID])).sum(axis=0)
        mean = np.minimum(sizes, _NOISE_CLIP).sum(axis=0) * _MEAN_ABS_TO_SIGMA - number
        # A noise that is three times too large is none of this signal's: forget it fast.
        wrong = (mean < -0.65 * number) & (number >= BLOCK // 2)
        span = np.minimum(count + 1.0, np.where(wrong, 25.0, NOISE_SPAN))
        rows[NOISE] *= 1.0 + np.maximum(mean / span, -0.7)
        # The first distances are those of a signal that settles: of tails they tell nothing.
        gain = np.where(count >= TAIL_FROM, 0.01 + 4.0 / (count + 40.0), 0.0)
        rows[MID] += 0.5 * gain * (mid - 0.1 * number)
        rows[HIGH] += gain * (high - 0.01 * number)
        np.maximum(rows[MID], LOG_Q90 - 0.5, out=rows[MID])
        np.maximum(rows[HIGH], rows[MID], out=rows[HIGH])

    def derive(self, speed: float) -> None:
        """Thresholds and gains from what is known."""
        rows = self.rows
        count = rows[COUNT]
        noise = np.maximum(rows[NOISE], self.floor)
        new = count < KNOWN_FROM
        if new.any():
            noise = np.where(new, np.maximum(noise, self.prior), noise)
        if speed > 0.0005:
            noise = noise + 3.0 * speed * self.with_rate
        np.divide(1.0, noise, out=rows[INVERSE])
        if self._laws is None or self._laws.signals != self.size:
            self._laws = Thresholds(self.rate, self.size)
        laws = self._laws
        doubt = 1.0 + DOUBT / np.maximum(count, DOUBT / 2.0)
        rows[SINGLE] = laws.single(rows[MID], rows[HIGH]) * doubt
        rows[PAIR] = laws.pair(rows[MID], rows[HIGH], rows[MEMORY]) * doubt
        rows[EDGE] = BAND * np.maximum(np.exp(rows[HIGH] - LOG_Q99), 1.0)
        # Distances that resemble the one before say that the level is too slow for this signal.
        wandering = np.minimum(np.maximum(rows[MEMORY] - 0.15, 0.0), 0.6)
        gain = np.maximum(LEVEL_GAIN + wandering, 1.0 / (count + 1.5))
        rows[GAIN] = gain * noise
        rows[DRIFT_STEP] = np.minimum(DRIFT_GAIN, count / 10000.0) * noise
        if self.size:
            self.calm = float(min(CALM, rows[PAIR].min()))

    def level_again(self, columns: npt.NDArray[np.intp]) -> None:
        """Take the newest values of these signals for their level."""
        seen = self.values[: self.filled, columns]
        level = self.rows[LAST, columns]
        if self.filled:
            newest = _last(seen)
            level = np.where(newest == newest, newest, level)
        begun = self.rows[COUNT, columns] > 0.0
        columns, level = columns[begun], level[begun]
        self.rows[EXPECTED, columns] = level
        self.rows[DRIFT, columns] = 0.0
        self.rows[SLOW, columns] = level
        self.rows[LAST_Z, columns] = 0.0
        self.rows[SINCE, columns] = np.nan

    def trend(self) -> Vector:
        """Change over 100 records, in noise units of one value (N,)."""
        # Of a ramp of slope g a mean of span n lags n g behind: 100 for the slow one, and the
        # expected value, which follows a ramp, does not lag.
        found: Vector = (self.rows[EXPECTED] - self.rows[SLOW]) * self.rows[INVERSE]
        return found

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values; matrices as text, exact to the bit."""
        return {
            "rows": packed(self.rows),
            "values": packed(self.values),
            "distances": packed(self.distances),
            "filled": self.filled,
            "blocks": self.blocks,
            "young_until": self.young_until,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`; the same signals must have been added."""
        self.rows = unpacked(state["rows"], ROWS)
        self.values = unpacked(state["values"], BLOCK)
        self.distances = unpacked(state["distances"], BLOCK)
        self.filled, self.blocks = state["filled"], state["blocks"]
        self.young_until = state["young_until"]
        self.calm = float(min(CALM, self.rows[PAIR].min())) if self.size else CALM


def _last(values: Vector) -> Vector:
    """The newest value of each column that is not NaN (B, N) -> (N,)."""
    newest: Vector = values[-1].copy()
    for row in values[-2::-1]:
        np.copyto(newest, row, where=newest != newest)
    return newest


def packed(matrix: Vector) -> str:
    """A matrix as text: zlib and base64 of its float64 numbers, little-endian."""
    return base64.b64encode(zlib.compress(matrix.astype("<f8").tobytes(), 1)).decode("ascii")


def unpacked(text: str, rows: int) -> Vector:
    """Inverse of :func:`packed` for a matrix of so many rows."""
    flat = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8")
    matrix: Vector = np.array(flat, dtype=np.float64).reshape(rows, -1)
    return matrix

"""The course of one signal: a robust level, its noise and the weight of its tail, a step at a time.

Three things keep it honest:

* Values told as abnormal and non-finite ones are never learned, and an innovation is clipped at
  three times the noise before it moves the level: an outlier that was missed cannot blind it. The
  noise is a median over 128 innovations, and what is learned of noise and tail waits in quarantine
  for up to 32 records: the first steps of a trouble do not raise the bar for the next ones.
* The level is a short exponential mean. A falling loss therefore lies *below* it: during the steep
  first fall the estimate errs towards silence, and only a fall that has lasted is extrapolated.
* How far out a value must be before it is an outlier depends on the tail of that very run. Two
  quantiles of the standardised innovations (90 % and 99 %) are followed, and the threshold
  extrapolates them: q99 (q99 / q90)^p, where p grows with the ratio of the two, from 1.25 for the
  light tail of normal noise to 2 and more for Student's t. A light tail is believed only once it
  was seen for long: the least threshold falls from 9 noise units over the first 200 values towards
  5. Quantiles know how often, not how far: rare real spikes, however high, do not raise it.
* While the first fall is recent, the noise is the least of three estimates that a fall inflates to
  different degrees: of the innovations, of second differences, and of the excess that is judged.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

LEVEL_SPAN = 10
DRIFT_SPAN = 16
FAST_SPAN = 40
WINDOW = 128
NEWEST = 3
QUARANTINE = 32
CLIP = 3.0
BELOW_RUN = 5
KNOWN_FROM = 16
TAIL_FROM = 200
SETTLED = 400
_NORMAL_RATIO = 2.3263 / 1.2816
_NORMAL_POWER, POWER_SLOPE = 1.25, 1.3
LEAST_POWER, MOST_POWER = 1.2, 2.6
JITTER_FACTOR = 2.5
LEAST_JITTER = 1.2
ABOVE_FACTOR = 1.3
THRESHOLD_FIRST, THRESHOLD_LOW, THRESHOLD_HIGH = 9.0, 5.0, 30.0
_MEAN_ABS_TO_SIGMA = 1.2533
_MEAN_ABOVE_TO_SIGMA = 2.5066
_MEDIAN_ABS_TO_SIGMA = 1.4826
_SECOND_DIFFERENCE_TO_SIGMA = 1.2533 / math.sqrt(6.0)
_NORMAL_Q90, _NORMAL_Q99 = math.log(1.2816), math.log(2.3263)
_NUMBERS = (
    "count",
    "level",
    "drift",
    "fast",
    "jitter",
    "above",
    "mid",
    "high",
    "low",
    "top",
    "below",
    "below_mean",
)


class Course:
    """Level, noise and tail of one signal, fed its healthy values in order.

    Args:
        floor: noise below this is not believed; in the signal's unit (nats for the loss).
        prior: noise assumed for the first 16 values.
        strictness: factor on the threshold.

    Attributes:
        count: values learned.
        level: where the signal runs.
        drift: mean innovation, negative while the signal falls.
        fast: noise over about 40 values; it follows a noise that grows.
        jitter: noise from second differences; blind to a trend, and to slow noise.
        above: noise from what lay above the expected value; a fall makes it small.
        mid: log of the 90 % quantile of the innovations in noise units.
        high: log of the 99 % quantile.
        low: lowest level so far.
        top: highest level so far.
        below: length of the present run of values below the band.
        below_mean: their mean.
    """

    def __init__(self, *, floor: float, prior: float, strictness: float = 1.0) -> None:
        self.floor = floor
        self.prior = prior
        self.strictness = strictness
        self.count = 0
        self.level = self.drift = 0.0
        self.fast = self.jitter = self.above = prior
        self.mid, self.high = _NORMAL_Q90, _NORMAL_Q99
        self.low = self.top = 0.0
        self.below = 0
        self.below_mean = 0.0
        self._newest: deque[float] = deque(maxlen=NEWEST)
        self._pending: deque[tuple[float, float, float]] = deque()
        self._sizes: deque[float] = deque()
        self._ordered: list[float] = []
        self._derive()

    def _derive(self) -> None:
        """What follows from the state, worked out once a value: it is asked for several times."""
        count, level, ordered = self.count, self.level, self._ordered
        if count < KNOWN_FROM:
            spread = max(self.fast, self.prior)
        else:
            spread = max(self.fast, self.floor)
            if ordered:
                middle = ordered[len(ordered) // 2] * _MEDIAN_ABS_TO_SIGMA
                if middle > spread:
                    spread = middle
        noise = spread
        if KNOWN_FROM <= count < SETTLED:
            above = max(ABOVE_FACTOR * self.above, LEAST_JITTER * self.jitter)
            noise = max(min(spread, JITTER_FACTOR * self.jitter, above), self.floor)
        # A fall is carried on only once it has lasted; in the first, steep one the level lags far
        # above the values, and the last three say better where they run.
        if self.drift < 0.0 and count > 3 * DRIFT_SPAN:
            level += 0.8 * (1.0 - 3 * DRIFT_SPAN / count) * self.drift
        if self._newest:
            level = min(level, max(self._newest))
        tail = min(max(self._tail(), self._lowest()), THRESHOLD_HIGH)
        self._spread, self._noise, self._expected = spread, noise, level
        self._threshold = tail * self.strictness * self.doubt()

    def _lowest(self) -> float:
        """Least threshold: a light tail is believed only once it was seen for long."""
        if self.count <= TAIL_FROM:
            return THRESHOLD_FIRST
        return THRESHOLD_LOW + (THRESHOLD_FIRST - THRESHOLD_LOW) * TAIL_FROM / self.count

    def _tail(self) -> float:
        ratio = self.high - self.mid
        power = _NORMAL_POWER + POWER_SLOPE * (math.exp(ratio) - _NORMAL_RATIO)
        return math.exp(self.high + min(max(power, LEAST_POWER), MOST_POWER) * ratio)

    def expected(self) -> float:
        """Where the next value is expected: not above the level, nor above the last three."""
        return self._expected

    def spread(self) -> float:
        """Standard deviation of the innovations, robust, never below ``floor``."""
        return self._spread

    def noise(self) -> float:
        """The part of :meth:`spread` that is noise: early on a steep fall passes for it."""
        return self._noise

    def threshold(self) -> float:
        """Noise units from which a value is an outlier of *this* signal."""
        return self._threshold

    def doubt(self) -> float:
        """Factor on the noise for its own uncertainty: known from few values it may be half."""
        return 1.0 if self.count < KNOWN_FROM else 1.0 + 8.0 / self.count

    def judge(self, value: float) -> tuple[float, float]:
        """``(excess, score)``: distance above the expected value, and in units of the threshold."""
        if self.count == 0:
            return 0.0, 0.0
        excess = value - self._expected
        return excess, excess / (self._noise * self._threshold)

    def clip(self, value: float) -> float:
        """``value``, at most three noise units away from where it is expected."""
        if self.count == 0:
            return value
        middle, bound = self.level + self.drift, CLIP * self._spread
        return min(max(value, middle - bound), middle + bound)

    def learn(self, value: float) -> None:
        """Take up a value that was not told as abnormal."""
        newest, excess = self._newest, value - self._expected
        if len(newest) >= 2:
            self._learn_jitter(abs(value - 2.0 * newest[-1] + newest[-2]))
        newest.append(value)
        if self.count == 0:
            self.count, self.level, self.low, self.top = 1, value, value, value
        else:
            self._learn(value, excess)
        self._derive()

    def _learn(self, value: float, excess: float) -> None:
        noise, level, drift = self._spread, self.level, self.drift
        innovation = value - level - drift
        bound = CLIP * noise
        clipped = innovation
        if innovation > bound:
            clipped = bound
        elif innovation < -bound:
            # Falling out of the band downwards is good news, and a new level after five in a row:
            # clipped steps would take hundreds of records to follow it and swell the noise.
            clipped = -bound
            self.below += 1
            self.below_mean += (value - self.below_mean) / self.below
            if self.below >= BELOW_RUN:
                self.level, self.below, self.below_mean = self.below_mean, 0, 0.0
                self.low = min(self.low, self.level)
                self.count += 1
                return
        if clipped > -bound:
            self.below, self.below_mean = 0, 0.0
        count = self.count + 1
        level += (drift + clipped) / (count if count < LEVEL_SPAN else LEVEL_SPAN)
        if drift < 0.0 and clipped < innovation:
            drift *= 0.75  # the fall is over: an extrapolated one would run away below
        self.drift = drift + clipped / (count if count < DRIFT_SPAN else DRIFT_SPAN)
        self.level, self.count = level, count
        if level < self.low:
            self.low = level
        elif level > self.top:
            self.top = level
        pending = self._pending
        pending.append((innovation, noise, excess))
        while len(pending) > QUARANTINE or len(pending) > count // 4:
            self._learn_noise(*pending.popleft())
        if count == KNOWN_FROM and self._ordered:  # from here on the data speak
            self.fast = self._ordered[len(self._ordered) // 2] * _MEDIAN_ABS_TO_SIGMA

    def _learn_noise(self, innovation: float, noise: float, excess: float) -> None:
        size = abs(innovation)
        sizes, ordered, count = self._sizes, self._ordered, self.count
        sizes.append(size)
        insort(ordered, size)
        # While the first fall is recent the window is shorter, to forget it soon.
        if len(sizes) > min(WINDOW, max(KNOWN_FROM, count // 3)):
            del ordered[bisect_left(ordered, sizes.popleft())]
        self.fast += (min(size, CLIP * noise) * _MEAN_ABS_TO_SIGMA - self.fast) / FAST_SPAN
        above = min(max(excess, 0.0), CLIP * noise) * _MEAN_ABOVE_TO_SIGMA
        self.above += (above - self.above) / FAST_SPAN
        if count >= TAIL_FROM:
            gain = self._gain()
            standard = innovation / noise
            log = math.log(standard) if standard > 1e-9 else -20.0
            self.mid += 0.5 * gain * (0.9 if log > self.mid else -0.1)
            self.high += gain * (0.99 if log > self.high else -0.01)
            if self.high < self.mid:
                self.high = self.mid

    def _learn_jitter(self, difference: float) -> None:
        size = difference * _SECOND_DIFFERENCE_TO_SIGMA
        if self.count >= KNOWN_FROM:
            size = min(size, CLIP * self.jitter)
        self.jitter += (size - self.jitter) / min(self.count, FAST_SPAN)

    def _gain(self) -> float:
        return 0.01 + 4.0 / (self.count + 40)

    def note_outlier(self) -> None:
        """Count a value far out in the tail that was kept out of everything else."""
        self.high += 0.99 * self._gain()
        self._derive()

    def drop_pending(self) -> None:
        """Forget the innovations that have not yet counted: an incident began among them."""
        self._pending.clear()

    def relevel(self, level: float, noise: float | None = None) -> None:
        """Go on from another level; ``noise`` replaces what was known of it, if given."""
        if noise is not None:
            self.fast = noise
            self._sizes.clear()
            self._ordered.clear()
        self._newest.clear()
        self.level, self.drift, self.below, self.below_mean = level, 0.0, 0, 0.0
        self.count = max(self.count, 1)
        self._derive()

    def rescale(self, factor: float) -> None:
        """The noise is known to be ``factor`` times what it was: another batch size."""
        self.fast *= factor
        self.jitter *= factor
        self.above *= factor
        self._sizes = deque(size * factor for size in self._sizes)
        self._ordered = sorted(self._sizes)
        self._pending.clear()
        self._derive()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        state: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        state["newest"] = list(self._newest)
        state["sizes"] = list(self._sizes)
        state["pending"] = [list(pair) for pair in self._pending]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._newest = deque(state["newest"], maxlen=NEWEST)
        self._sizes = deque(state["sizes"])
        self._ordered = sorted(self._sizes)
        self._pending = deque((a, b, c) for a, b, c in state["pending"])
        self._derive()

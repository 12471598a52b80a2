"""A short memory of the last records, and the search back through it for the onset.

The alarm comes after the onset: by a step if the spike is sudden, by tens if the loss creeps, and
the gradient norm often leaves its band before the loss does. The memory has a fixed length.
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

LENGTH = 128
# In units of each signal's own threshold (about 7.7 noise units for normal noise):
OUT = 0.45  # out of the band (3.5 noise units)
DOUBTFUL = 0.3  # perhaps (2.3)
GAPS = 16
FALL_FROM = 16  # records of either third of the memory that a fall is read from
BURST_FROM = 1.5  # noise units: of a burst no single record need be out of the band
GAP = 3  # records back in the band that may lie inside one event


class Entry(NamedTuple):
    """One record in memory; ``None`` where the signal was absent or not usable.

    ``sound`` says that the weights after its own update were evaluated and found healthy.
    """

    step: int
    loss: float | None
    loss_score: float | None
    grad_score: float | None
    sound: bool = False


@dataclass(frozen=True, slots=True)
class Onset:
    """Where a trouble began: index into the memory, step, interval and the signal that led.

    ``known`` is False where nothing healthy came before it.
    """

    index: int
    step: int
    interval: tuple[int, int]
    signal: str
    known: bool = True


class History:
    """The last :data:`LENGTH` records, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=LENGTH)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Remember a record; the oldest is forgotten."""
        self._entries.append(entry)

    def delayed(self, records: int) -> float | None:
        """The loss so many records ago, if there is one."""
        entries = self._entries
        return entries[-records - 1].loss if len(entries) > records else None

    def recent_grad(self) -> float:
        """Largest gradient score of the newest three records."""
        newest = (self._entries[i] for i in range(-1, -min(3, len(self._entries)) - 1, -1))
        return max((e.grad_score for e in newest if e.grad_score is not None), default=0.0)

    def every(self) -> int:
        """Steps between records: median over the newest of them, at least 1."""
        steps = [entry.step for entry in list(self._entries)[-GAPS:]]
        return int(median(b - a for a, b in pairwise(steps))) if len(steps) > 1 else 1

    def restart(self, entries: list[Entry]) -> None:
        """Forget everything but ``entries``."""
        self._entries.clear()
        self._entries.extend(entries)

    def forget_from(self, step: int) -> None:
        """Forget ``step`` and what came after it."""
        while self._entries and self._entries[-1].step >= step:
            self._entries.pop()

    def level_before(self, index: int, records: int = 24) -> float | None:
        """Median loss of the records just before ``index``; None if there are fewer than 8."""
        entries = list(self._entries)[max(0, index - records) : index]
        losses = [entry.loss for entry in entries if entry.loss is not None]
        return median(losses) if len(losses) >= 8 else None

    def losses_from(self, index: int) -> list[tuple[int, float]]:
        """``(step, loss)`` of the records from ``index`` on."""
        entries = list(self._entries)[index:]
        return [(entry.step, entry.loss) for entry in entries if entry.loss is not None]

    def fall(self, index: int) -> float:
        """Nats a record at which the loss fell before ``index``, at most 0; only what is certain.

        Between the medians of a third of the memory at either end, less one standard error, so
        that noise alone makes no fall.
        """
        entries = list(self._entries)[:index]
        losses = [entry.loss for entry in entries if entry.loss is not None]
        third = len(losses) // 3
        if third < FALL_FROM:
            return 0.0
        early, late = losses[:third], losses[-third:]
        middle = median(late)
        noise = 1.4826 * median(abs(value - middle) for value in late)
        change = middle - median(early) + 1.25 * noise * math.sqrt(2.0 / third)
        return min(0.0, change / (len(losses) - third))

    def sudden_onset(self) -> Onset:
        """Onset of what stands out at the newest record.

        For each signal the run of records out of its band is followed backwards from the newest,
        across gaps of up to three records (a loss may relax for a step while the gradient norm
        goes on rising). The signal whose run reaches back furthest leads.
        """
        first, signal = self._led()
        doubtful = first
        while doubtful > 0 and _doubtful(self._entries[doubtful - 1]):
            doubtful -= 1
        return self._onset(first, doubtful, first, signal)

    def nonfinite_onset(self, signal: str) -> Onset:
        """Onset of a value that is not finite at the newest record.

        A record that is only perhaps out of its band is no ground for an earlier date here. Where
        the gradient alone was not finite, its loss vouches for the weights that it was taken of.
        """
        newest = len(self._entries) - 1
        first, led = self._led()
        onset = self._onset(first, first, first, led if first < newest else signal)
        if first == newest and signal != "loss" and self._entries[newest].loss is not None:
            return replace(onset, interval=(onset.step, onset.step))
        return onset

    def _led(self) -> tuple[int, str]:
        """Index of the first record out of its band, and the signal that was out there."""
        entries = list(self._entries)
        newest = len(entries) - 1
        first, signal = newest, "loss"
        starts = (
            ("loss", [e.loss_score for e in entries]),
            ("grad_norm", [e.grad_score for e in entries]),
        )
        for name, scores in starts:
            start = _run_start(scores, newest)
            if start is not None and start < first:
                first, signal = start, name
        if first == newest and not _out(entries[newest].loss_score):
            signal = "grad_norm" if _out(entries[newest].grad_score) else "loss"
        return first, signal

    def creeping_onset(self, noise: float) -> Onset:
        """Onset of a change that shows in the mean only: where a cumulative sum last was at zero.

        The sum of (loss - old level) / noise - offset is largest when started at the change
        (Page 1954). Half of the present shift as offset is right for a step, a smaller one for a
        climb; the two bound the interval.
        """
        entries = list(self._entries)
        losses = [entry.loss for entry in entries if entry.loss is not None]
        old = median(losses[: max(8, len(losses) // 4)])
        scores = [None if e.loss is None else (e.loss - old) / noise for e in entries]
        shift = max(1.0, median(s for s in scores[-12:] if s is not None))
        last = _sum_start(scores, shift / 2)
        middle = min(last, _sum_start(scores, max(0.5, shift / 4)))
        first = min(middle, _sum_start(scores, max(0.25, shift / 8)))
        signal = "loss"
        for index in range(max(0, first - 8), middle):
            score = entries[index].grad_score
            if score is not None and score >= 2 * OUT:
                first, middle, signal = min(first, index), index, "grad_norm"
                break
        return self._onset(middle, first, last, signal)

    def burst_onset(self, records: int, level: float, noise: float) -> Onset:
        """Onset of what the newest ``records`` losses show together: the first that stands out.

        Args:
            records: of the window.
            level: where the loss ran before it.
            noise: standard deviation of single losses.
        """
        entries = list(self._entries)
        places = [index for index, entry in enumerate(entries) if entry.loss is not None]
        first = places[-records:][0]
        for index in places[-records:]:
            loss = entries[index].loss
            if loss is not None and loss >= level + BURST_FROM * noise:
                first = index
                break
        return self._onset(first, first, first, "loss")

    def _onset(self, index: int, first: int, last: int, signal: str) -> Onset:
        entries = self._entries
        # The loss of row k is of the weights after k - 1 updates: the record before the first
        # abnormal one vouches for the weights it was computed with, not for its own update, unless
        # these were evaluated.
        begin = entries[first].step - 1
        if first > 0:
            begin = entries[first - 1].step + int(entries[first - 1].sound)
        step = entries[index].step
        interval = (min(max(1, begin), step), max(step, entries[last].step))
        return Onset(first, step, interval, signal, known=first > 0)

    def state_dict(self) -> list[list[float | int | None]]:
        """All state, as JSON values."""
        return [list(entry) for entry in self._entries]

    def load_state_dict(self, state: list[Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        self.restart([Entry(*item) for item in state])


def _out(score: float | None) -> bool:
    return score is not None and score >= OUT


def _doubtful(entry: Entry) -> bool:
    scores = (entry.loss_score, entry.grad_score)
    return any(score is not None and score >= DOUBTFUL for score in scores)


def _run_start(scores: list[float | None], newest: int) -> int | None:
    start, gap = None, 0
    for index in range(newest, -1, -1):
        if _out(scores[index]):
            start, gap = index, 0
        else:
            gap += 1
            if gap > GAP:
                break
    return start


def _sum_start(scores: list[float | None], offset: float) -> int:
    """Index from which the sum of ``score - offset`` to the end is largest."""
    best, best_index, total = -1.0, len(scores) - 1, 0.0
    for index in range(len(scores) - 1, -1, -1):
        score = scores[index]
        if score is None:
            continue
        total += score - offset
        if total > best:
            best, best_index = total, index
    return best_index

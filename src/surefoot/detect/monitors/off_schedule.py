"""SCH001: the learning rate runs through its schedule a whole number of times too fast or slow."""

import math
from collections.abc import Callable, Sequence

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding, TrainSpec

MOST = 64
POINTS = 3
PRECISION = 0.002
"""Of the peak: what printing may take from a rate. Beside it, one step of offset is allowed, and
as many as updates were skipped: a scheduler waits for those."""
APART = 3.0


class OffSchedule(Plain):
    """Holds the rate against the linear or cosine schedule that was asked for.

    A scheduler that is stepped once for each process, or each micro-batch, runs through its
    schedule k times too fast; one that is stepped once in k updates, k times too slow. The rate at
    step s is then exactly that of step k s, or s / k. Nothing else looks like that, so unstated
    parts of a schedule (a warm-up of 0, an end of 0, are taken for granted) do not raise it. With
    a k that is a size of the run (processes, ranks, micro-batches) one point decides, else three.

    Args:
        spec: what the run was asked to do; without a stated schedule nothing is judged.
    """

    name = "rate-off-schedule"
    fields = ("candidates", "points", "first", "skipped", "done")

    def __init__(self, spec: TrainSpec | None = None) -> None:
        self._asked = None if spec is None else asked(spec)
        self._peak = 0.0 if spec is None else spec.optimizer.learning_rate or 0.0
        self._end = 0 if spec is None else _end(spec) or 0
        self._sizes = {} if spec is None else _sizes(spec)
        self.candidates: list[int] | None = None
        self.points = 0
        self.first: int | None = None
        self.skipped = 0
        self.done = False

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the rate of a row."""
        if self.done or self._asked is None:
            return NOTHING
        rate = finite(row.values, "learning_rate")
        skips = [finite(row.values, n) for n in ("skipped_iterations", "update_skipped")]
        counted = max((s for s in skips if s is not None), default=0.0)
        self.skipped = int(min(self.skipped + max(counted, 0.0), 1e9))
        if rate is None or rate <= 0.0 or row.step <= 0:
            return NOTHING  # a rate of 0 is that of a skipped update, or of the end
        if self._matches(rate, row.step, 1):
            # On schedule where k times the steps would show: the schedule is kept.
            self.done = self.points > 0 or self._tells(row.step)
            return NOTHING
        # Negative: too slow by that factor.
        factors = [*range(2, MOST + 1), *range(-MOST, -1)]
        fits = [k for k in factors if self._matches(rate, row.step, k)]
        if self._saturated(row.step, fits):
            return NOTHING
        self.points += 1
        self.first = row.step if self.first is None else self.first
        old = self.candidates
        self.candidates = fits if old is None else [k for k in old if k in fits]
        known = [k for k in self.candidates if abs(k) in self._sizes]
        if not self.candidates:
            self.done = True
        elif len(known) == 1 and self.points == 1 and len(self.candidates) <= 3:
            return [self._finding(row, rate, known[0])]
        elif self.points >= POINTS and len(known or self.candidates) == 1:
            return [self._finding(row, rate, (known or self.candidates)[0])]
        return NOTHING

    def _at(self, step: int, k: int) -> tuple[float, float]:
        """Lowest and highest rate that the schedule has about the step as stepped with ``k``."""
        assert self._asked is not None
        speed = float(k) if k > 0 else -1.0 / k
        rates = [self._asked((step + offset) * speed) for offset in (-1 - self.skipped, 0, 1)]
        return min(rates), max(rates)

    def _matches(self, rate: float, step: int, k: int) -> bool:
        low, high = self._at(step, k)
        slack = PRECISION * self._peak
        return low - slack <= rate <= high + slack

    def _tells(self, step: int) -> bool:
        """Whether twice the steps would have given another rate here."""
        low, high = self._at(step, 1)
        other_low, other_high = self._at(step, 2)
        return max(other_low - high, low - other_high) > APART * PRECISION * self._peak

    def _saturated(self, step: int, fits: list[int]) -> bool:
        """Whether the rate is one that many speeds give: the end, or the peak."""
        return len(fits) > MOST // 4

    def _finding(self, row: Row, rate: float, k: int) -> Finding:
        assert self._asked is not None
        self.done = True
        due = self._asked(row.step)
        size = self._sizes.get(abs(k))
        of = f", the factor equals {size}" if size else ""
        speed = f"{k} times too fast" if k > 0 else f"{-k} times too slow"
        ends = ""
        if k > 0:
            over, low = self._end // k, self._asked(self._end)
            ends = (
                f"; it reaches its end at step {over} of {self._end}, and the other "
                f"{self._end - over} steps would run at {low:.3g}"
            )
        if k > 0:
            cause = (
                f"the scheduler is stepped {k} times an update: build it for {k} times the steps, "
                "or do not let the trainer step it once for each process"
            )
        else:
            cause = f"the scheduler is stepped once in {-k} updates: step it after every update"
        return finding(
            "SCH001",
            f"the learning rate is {rate:.4g} at step {row.step} where {due:.4g} was due: it "
            f"runs through its schedule {speed}{of}{ends}",
            row,
            first=self.first,
            cause="rate",
            signal="learning_rate",
            evidence={
                "learning_rate": rate,
                "due": due,
                "factor": k if k > 0 else -1.0 / k,
                "equals": size,
                "end_step": self._end // k if k > 0 else None,
                "asked_end_step": self._end,
            },
            actions=(cause, "stop and resume with the schedule at the step it should be at"),
            references=("huggingface/accelerate issue 2926", "huggingface/transformers PR 24088"),
        )


def _end(spec: TrainSpec) -> int | None:
    return spec.schedule.decay_steps or spec.schedule.steps


def _sizes(spec: TrainSpec) -> dict[int, str]:
    """Sizes of the run by which a scheduler may be stepped too often."""
    p = spec.parallelism
    stated = (
        (p.world_size, "the number of processes"),
        (p.data, "the number of data-parallel ranks"),
        (spec.batch.accumulation, "the number of micro-batches"),
        (p.devices_per_node, "the devices of a machine"),
    )
    found: dict[int, str] = {}
    for size, words in stated:
        if size is not None and size > 1:
            found.setdefault(size, words)
    return found


def asked(spec: TrainSpec) -> Callable[[float], float] | None:
    """The asked learning rate as a function of the step; None if it is not fully stated.

    Linear and cosine decays with a linear warm-up, counted in steps. What is not stated is taken as
    a warm-up of 0 steps and an end of 0.
    """
    s, peak, end = spec.schedule, spec.optimizer.learning_rate, _end(spec)
    if s.kind not in ("linear", "cosine") or not peak or peak < 0.0 or not end or end < 2:
        return None
    warm = s.warmup_steps
    if warm is None:
        warm = round(s.warmup_fraction * end) if s.warmup_fraction else 0
    if s.warmup_samples or s.warmup_tokens or not 0 <= warm < end:
        return None
    low = s.min_learning_rate
    if low is None:
        low = peak * (s.final_factor or 0.0)
    start = s.warmup_from or 0.0
    kind = s.kind

    def rate(step: float) -> float:
        if 0 < warm and step < warm:
            return start + (peak - start) * max(step, 0.0) / warm
        progress = min(1.0, max(step - warm, 0.0) / (end - warm))
        left = 1.0 - progress if kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
        return low + (peak - low) * left

    return rate

"""What a run was doing around an incident: rates, restarts, loss scale, the last losses.

Kept while all is well, a few numbers a record, so that it is there when an incident is told.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from surefoot.detect.evidence import Evidence, SignalFacts
from surefoot.detect.usability import number
from surefoot.records import StepRecord

BEFORE, AFTER = 96, 64
SHOWN_BEFORE = 16
JUMP = 1.5
NEAR = 50
REPEATS = 8
GAPS = 15


@dataclass(slots=True)
class Context:
    """The newest records' losses, rates and counters.

    Attributes:
        records: records seen.
        first_step: of the first one.
        last_step: of the newest.
        losses: newest (step, loss, rate), the oldest forgotten.
        gaps: newest distances between records, in steps.
        uniform: ln V, or the first loss if the run is seen from its start.
        rate: the newest learning rate.
        rate_peak: the largest.
        rate_jumps: newest jumps by more than half: (step, factor).
        attempt: of the newest record.
        resumed_step: first step of the newest attempt after the first.
        skips: steps of the newest skipped updates.
        scales: newest (step, loss scale).
        repeats: onset steps of closed incidents.
        contradictions: newest findings of the monitors: (code, step).
        open_since: onset of the incident that is open; what came before it is kept for its end.
    """

    records: int = 0
    first_step: int = 0
    last_step: int = 0
    losses: list[tuple[int, float | None, float | None]] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    uniform: float | None = None
    rate: float | None = None
    rate_peak: float | None = None
    rate_jumps: list[tuple[int, float]] = field(default_factory=list)
    attempt: int = 0
    resumed_step: int | None = None
    skips: list[int] = field(default_factory=list)
    scales: list[tuple[int, float]] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    open_since: int | None = None
    contradictions: list[tuple[str, int]] = field(default_factory=list)

    def update(self, record: StepRecord) -> None:
        """Take up the next record."""
        step, values = record.step, record.values
        if not self.records:
            self.first_step, self.attempt = step, record.attempt
        elif record.attempt != self.attempt:
            self.attempt, self.resumed_step = record.attempt, step
            self._forget_from(step)
        elif step > self.last_step:
            _keep(self.gaps, step - self.last_step, GAPS)
        self.records += 1
        self.last_step = step
        loss, rate = number(values.get("loss")), _positive(values.get("learning_rate"))
        if loss is not None and not math.isfinite(loss):
            loss = None
        self._rate(step, rate)
        if not self._complete():
            _keep(self.losses, (step, loss, rate), BEFORE + AFTER)
        if values.get("update_skipped"):
            _keep(self.skips, step, NEAR)
        scale = _positive(values.get("loss_scale"))
        if scale is not None and (not self.scales or self.scales[-1][1] != scale):
            _keep(self.scales, (step, scale), NEAR)
        if self.records == 1 and step <= 2 and loss is not None and loss > 1.0:
            self.uniform = loss

    def _rate(self, step: int, rate: float | None) -> None:
        if rate is None:
            return
        if self.rate:
            ratio = rate / self.rate
            warm = self.rate_peak is not None and self.rate < self.rate_peak / 2
            # Warm-up's first records double the rate as a matter of course.
            rising_first = ratio > 1 and self.records <= NEAR and not warm
            if (ratio > JUMP and not rising_first) or ratio < 1 / JUMP:
                _keep(self.rate_jumps, (step, ratio), REPEATS)
        self.rate = rate
        self.rate_peak = rate if self.rate_peak is None else max(self.rate_peak, rate)

    def _forget_from(self, step: int) -> None:
        self.losses = [entry for entry in self.losses if entry[0] < step]
        self.skips = [at for at in self.skips if at < step]
        self.contradictions = [item for item in self.contradictions if item[1] < step]
        self.rate_jumps = [item for item in self.rate_jumps if item[0] < step]
        self.scales = [item for item in self.scales if item[0] < step]
        self.repeats = [at for at in self.repeats if at < step]
        self.open_since = None

    def _complete(self) -> bool:
        """Whether enough of the open incident was kept: more would push out what was before it."""
        since = self.open_since
        return since is not None and sum(1 for entry in self.losses if entry[0] >= since) >= AFTER

    def contradicted(self, code: str, step: int) -> None:
        """A monitor found that the run contradicts itself."""
        _keep(self.contradictions, (code, step), REPEATS)

    def opened(self, onset: int) -> None:
        """An incident is open that began at ``onset``."""
        self.open_since = onset

    def closed(self, onset: int) -> None:
        """An incident that began at ``onset`` has ended."""
        self.open_since = None
        _keep(self.repeats, onset, REPEATS)

    def evidence(
        self,
        *,
        code: str,
        onset_step: int,
        onset_interval: tuple[int, int],
        alarm_step: int,
        leading_signal: str,
        recovered: bool | None,
        score: float,
    ) -> Evidence:
        """Everything that is known here; the bank adds what it knows of the other signals."""
        before = [entry for entry in self.losses if entry[0] < onset_step]
        after = [entry for entry in self.losses if entry[0] >= onset_step]
        losses = [loss for _, loss, _ in before if loss is not None]
        later = [(step, loss) for step, loss, _ in after if loss is not None][:AFTER]
        rates = [rate for _, _, rate in before if rate is not None]
        rate_at = next((rate for _, _, rate in after if rate is not None), None)
        scale = [value for step, value in self.scales if step < onset_step]
        return Evidence(
            code=code,
            onset_step=onset_step,
            onset_interval=onset_interval,
            alarm_step=alarm_step,
            last_step=self.last_step,
            leading_signal=leading_signal,
            loss=self._loss_facts(losses, later, score),
            loss_after=tuple(loss for _, loss in later),
            steps_after=tuple(step for step, _ in later),
            loss_before=tuple(losses[-SHOWN_BEFORE:]),
            recovered=recovered,
            records_seen=self.records,
            first_step=self.first_step,
            uniform=self.uniform,
            rate_before=rates[-1] if rates else None,
            rate_at=rate_at,
            rate_peak=self.rate_peak,
            rate_jump_step=self.rate_jumps[-1][0] if self.rate_jumps else None,
            rate_jumps=tuple(self.rate_jumps),
            contradictions=tuple(self.contradictions),
            rate_earlier=rates[0] if rates else None,
            resumed_step=self.resumed_step,
            repeats=tuple(self.repeats),
            skipped_updates=sum(1 for at in self.skips if abs(at - onset_step) <= NEAR),
            scale_before=scale[-1] if scale else None,
            scale_last=self.scales[-1][1] if self.scales else None,
            record_every=float(median(self.gaps)) if self.gaps else 1.0,
        )

    def _loss_facts(
        self, losses: list[float], later: list[tuple[int, float]], score: float
    ) -> SignalFacts | None:
        if not later:
            return None
        recent = losses[-24:]
        before = median(recent) if recent else math.nan
        step, extreme = max(later, key=lambda entry: entry[1])
        noise = _noise(recent)
        trend = 0.0
        if len(losses) >= 48 and noise > 0.0:
            trend = (median(losses[-24:]) - median(losses[-48:-24])) / noise
        return SignalFacts(
            name="loss",
            before=before,
            at_onset=later[0][1],
            extreme=extreme,
            extreme_step=step,
            last=later[-1][1],
            score=score,
            out_since=later[0][0],
            trend=trend,
            records=self.records - len(later),
        )

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Context":
        """Rebuild from :meth:`state_dict`."""
        context = replace(cls(), **state)
        context.losses = [(step, loss, rate) for step, loss, rate in state["losses"]]
        context.rate_jumps = [(step, factor) for step, factor in state["rate_jumps"]]
        context.contradictions = [(code, step) for code, step in state["contradictions"]]
        context.scales = [(step, scale) for step, scale in state["scales"]]
        return context


def _keep(items: list[Any], item: Any, most: int) -> None:
    items.append(item)
    if len(items) > most:
        del items[0]


def _positive(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and 0.0 <= found < math.inf else None


def _noise(values: list[float]) -> float:
    """Noise of single values, from differences of neighbours: blind to a trend."""
    if len(values) < 4:
        return 0.0
    steps = sorted(abs(b - a) for a, b in itertools.pairwise(values))
    return 1.4826 * steps[len(steps) // 2] / math.sqrt(2.0)

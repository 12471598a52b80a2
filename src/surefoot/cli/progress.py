"""Progress of a run, a line every few seconds: loss, tokens/s, MFU where known, time left."""

import time
from collections.abc import Callable

from surefoot.records import Finding, StepRecord, Verdict
from surefoot.train import Job, mfu, peak_flops


class Progress:
    """Observer that tells how a run goes.

    Args:
        job: the run.
        say: told a line at a time.
        every: seconds between lines.
    """

    def __init__(self, job: Job, say: Callable[[str], None], every: float = 5.0) -> None:
        self._job = job
        self._say = say
        self._every = every
        self._last = time.monotonic()
        self._first_step = job.state.step
        self._started = self._last
        name = str(job.device_name)
        self._peak = peak_flops(name, job.recipe.precision.compute)

    def on_record(self, record: StepRecord, verdict: Verdict) -> None:
        """Tell of this step if it is time."""
        values, total = record.values, self._job.recipe.schedule.steps
        now = time.monotonic()
        due = now - self._last >= self._every or record.step in (1, total)
        if not due and "validation_loss" not in values:
            return
        self._last = now
        speed = float(values.get("tokens_per_second", float("nan")))
        left = (now - self._started) / max(1, record.step - self._first_step)
        parts = [
            f"step {record.step:>{len(str(total))}}/{total}",
            f"loss {values.get('loss', float('nan')):.3f}",
            f"{speed / 1000:.1f}k tok/s",
        ]
        used = mfu(speed, self._job.recipe.architecture, self._peak, self._job.ranks.world)
        if used is not None:
            parts.append(f"MFU {used:.0%}")
        if "validation_loss" in values:
            parts.append(f"validation {values['validation_loss']:.3f}")
        parts.append(f"{_clock(left * (total - record.step))} left")
        self._say("  ".join(parts))

    def on_finding(self, finding: Finding) -> None:
        """Tell of a finding at once."""
        self._say(f"{finding.severity}: {finding.code} {finding.message}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""The training loop: it reads top to bottom, and everything it does is in the ledger.

Signals of a step arrive with the next one, so findings come one step late; updates with a
non-finite gradient have been left out on the device by then.
"""

import time
from dataclasses import dataclass
from typing import Protocol

from surefoot.data import length_at, rank_share
from surefoot.optim import learning_rate
from surefoot.records import Finding, Halt, StepRecord, Verdict, to_json
from surefoot.runs.faults import crash_point
from surefoot.signals import peak_memory
from surefoot.train.evaluate import to_device, validation_loss
from surefoot.train.interrupt import Interrupt
from surefoot.train.job import Job
from surefoot.train.postmortem import write_postmortem
from surefoot.train.ranks import StopVote


class Observer(Protocol):
    """Who watches a run from outside; called on the first rank only."""

    def on_record(self, record: StepRecord, verdict: Verdict) -> None:
        """A step's signals and what the detector says of them."""

    def on_finding(self, finding: Finding) -> None:
        """A finding, already in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        step: the last step taken.
        validation_loss: the last one measured, nats per token; None if never.
        findings: everything that was found.
        halted: the findings that stopped the run; empty if none did.
        interrupted: the number of the signal that stopped it, or None.
    """

    step: int
    validation_loss: float | None
    findings: tuple[Finding, ...] = ()
    halted: tuple[Finding, ...] = ()
    interrupted: int | None = None


def train(job: Job, observer: Observer) -> Outcome:
    """Run the job to its last step, to a halt by policy or to a signal."""
    try:
        return _Loop(job, observer).run()
    finally:
        job.close()


class _Loop:
    def __init__(self, job: Job, observer: Observer) -> None:
        self.job = job
        self.observer = observer
        self.feed = job.corpus.train.with_skips(job.state.skipped_samples)
        self.found: list[Finding] = []
        self.halting: list[Finding] = []
        self.validation: float | None = None
        self.vote = StopVote(job.ranks)
        self.mark = time.perf_counter()

    def run(self) -> Outcome:
        job, last = self.job, self.job.recipe.schedule.steps
        self.mark = time.perf_counter()
        with Interrupt() as interrupt:
            while job.state.step < last:
                self.step()
                done = job.state.step == last
                stop = self.vote.cast(interrupt.received)
                if done or stop is not None or job.state.step % job.recipe.checkpoint.every == 0:
                    # Asked to stop at the very end: it has stopped, and is finished.
                    self.checkpoint(None if done else stop)
                if self.halting:
                    return self.halt()
                if stop is not None and not done:
                    return self.leave(stop)
        self.finish()
        return self.outcome()

    def step(self) -> None:
        """Feed the next batch, update, evaluate if due, and hand over the previous record."""
        job, state, recipe = self.job, self.job.state, self.job.recipe
        size = job.ramp.size_at(state.consumed_samples)
        share = rank_share(state.consumed_samples, size, job.ranks.rank, job.ranks.world)
        step = state.step + 1
        full = recipe.architecture.sequence_length
        length = length_at(recipe.batch, full, step)
        batch = to_device(self.feed, share, job.step)[:, : length + 1]
        rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step)
        outcome = job.step(batch, step, rate)

        tokens = size * length
        state.step = step
        state.consumed_samples += size
        state.consumed_tokens += tokens
        seconds = time.perf_counter() - self.mark
        values = dict(outcome.values) | {
            "batch_size": size,
            "tokens": tokens,
            "consumed_samples": state.consumed_samples,
            "consumed_tokens": state.consumed_tokens,
            "step_time": seconds,
            "tokens_per_second": tokens / seconds,
            "memory": peak_memory(job.ranks.device),
        }
        every = recipe.evaluation.every
        if step == recipe.schedule.steps or (every and step % every == 0):
            self.validation = validation_loss(
                job.step, job.corpus.validation, recipe.evaluation.samples
            )
            values["validation_loss"] = self.validation
        self.mark = time.perf_counter()
        self.take(job.recorder.step(step, values, outcome.sums, outcome.attention, outcome.routers))
        crash_point("step")

    def checkpoint(self, stop: int | None) -> None:
        """Hand over the record still on the device, then save: a checkpoint has all its rows."""
        self.take(self.job.recorder.settle())
        if not self.halting:
            self.job.save(self.reason(stop))
        self.mark = time.perf_counter()

    def take(self, verdict: Verdict | None) -> None:
        """Act on the verdict on a record that was stored and judged; what is found is told."""
        if verdict is None:
            return
        job = self.job
        self.tell(verdict.findings)
        job.custody.judge(verdict)
        if verdict.halt:
            self.halting += [finding for finding in verdict.findings if self.halts(finding)]
        if job.ranks.is_main and job.recorder.record is not None:
            self.observer.on_record(job.recorder.record, verdict)

    def tell(self, findings: tuple[Finding, ...]) -> None:
        """Tell findings, which are in the ledger."""
        self.found += findings
        if self.job.ranks.is_main:
            for finding in findings:
                self.observer.on_finding(finding)

    def halts(self, finding: Finding) -> bool:
        """Whether this finding stops the run under the recipe's settings."""
        detection = self.job.recipe.detection
        if finding.code == "SPK003":
            return detection.on_divergence == "halt"
        return finding.code == "SPK004" and detection.on_nonfinite == "halt"

    def reason(self, stop: int | None) -> str | None:
        """Why a save made now would not be trusted."""
        return self.job.custody.quarantine or ("signal" if stop is not None else None)

    def halt(self) -> Outcome:
        """Stop by policy: the action is in the ledger and explained before it takes effect."""
        job = self.job
        self.take(job.recorder.settle())
        findings = tuple(self.halting)
        last_good = job.store.latest()
        action = Halt(reason="; ".join(f.code for f in findings), last_good_step=last_good)
        if job.writer is not None:
            job.writer.ledger.append(
                "action", step=job.state.step, action="Halt", **to_json(action)
            )
            path = write_postmortem(job.folder, findings, job.state.step, last_good)
            job.writer.ledger.append("halted", step=job.state.step, postmortem=path.name)
        # Kept for replay; quarantined, so that nothing goes on from it.
        job.save("incident")
        return self.outcome(halted=findings)

    def leave(self, stop: int) -> Outcome:
        """Stop on a signal; the checkpoint is already written."""
        if self.job.writer is not None:
            self.job.writer.ledger.append("interrupted", step=self.job.state.step, signal=stop)
        return self.outcome(interrupted=stop)

    def outcome(self, halted: tuple[Finding, ...] = (), interrupted: int | None = None) -> Outcome:
        """How the run ended."""
        return Outcome(
            step=self.job.state.step,
            validation_loss=self.validation,
            findings=tuple(self.found),
            halted=halted,
            interrupted=interrupted,
        )

    def finish(self) -> None:
        """The last step is taken: tell what is still open."""
        self.tell(self.job.recorder.finish())
        if self.job.writer is not None:
            self.job.writer.ledger.append(
                "finished", step=self.job.state.step, validation_loss=self.validation
            )

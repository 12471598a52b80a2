"""From a step's numbers to the verdict on it: written down, judged, and told, in that order.

surefoot's own trainer and :class:`surefoot.watching.Watch` are its two users: what a run folder
holds and what is said of a run does not depend on who trained it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from torch import Tensor

from surefoot.detect import SpikeDetector, for_run, with_checkpoints
from surefoot.protocols import Detector
from surefoot.records import Finding, StepRecord, TrainSpec, Verdict, to_json
from surefoot.runs import RunWriter
from surefoot.signals import LossSums, Meter


def default_detector(
    *,
    vocab_size: int | None = None,
    places: Mapping[str, tuple[str, ...]] | None = None,
    spec: TrainSpec | None = None,
) -> Detector:
    """The detector that judges where nobody names another.

    Args:
        vocab_size: number of tokens, if known: ln of it is the loss of a model that knows nothing.
        places: for each per-place signal the names of its values, in order.
        spec: what the run was asked to do, as far as known.
    """
    return SpikeDetector(vocab_size=vocab_size, places=places, spec=spec)


class Recorder:
    """Takes each step's numbers, and gives the verdict on the step before.

    A record is stored as soon as it is on the host: on a CPU at once, on a device when its copy has
    arrived, at the latest with the next step. So what a crash loses is the step in flight. It is
    judged with the next step wherever it was measured.

    Args:
        meter: measured the step.
        detector: judges it.
        writer: of the run folder; None on ranks that do not write, or where there is none.
        name: of the run, for what is told of it.
        checkpoints: gives the steps of the checkpoints that can be gone back to.

    Attributes:
        meter: as given.
        detector: as given.
        writer: as given.
        checkpoints: as given.
        record: signals of the step judged last, or None.
        verdict: on that step.
    """

    def __init__(
        self,
        meter: Meter,
        detector: Detector,
        *,
        writer: RunWriter | None = None,
        name: str | None = None,
        checkpoints: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self.meter = meter
        self.detector = detector
        self.writer = writer
        self.record: StepRecord | None = None
        self.verdict = Verdict(step=0, status="warming_up")
        self.checkpoints = checkpoints
        self._attempt = 0
        self._name = name
        self._waiting: StepRecord | None = None

    @property
    def attempt(self) -> int:
        """Number of this start of the run: by the run folder, if there is one."""
        return self._attempt if self.writer is None else self.writer.attempt

    def step(
        self,
        step: int,
        values: Mapping[str, float | int | Tensor],
        sums: LossSums | Mapping[str, Tensor] | None = None,
        attention: Tensor | None = None,
        layers: Mapping[str, Tensor] | None = None,
    ) -> Verdict | None:
        """Take a step's numbers; nothing waits for the device.

        Args:
            step: counted from 1.
            values: as in :meth:`surefoot.signals.Meter.record`.
            sums: likewise.
            attention: likewise.
            layers: likewise.

        Returns:
            The verdict on the step before; None if there is none that was not judged yet.
        """
        verdict = self.settle()
        self.meter.record(step, self.attempt, values, sums=sums, attention=attention, layers=layers)
        self.collect()
        return verdict

    def collect(self) -> None:
        """Store the record that is on its way, if it has arrived."""
        record = self.meter.arrived()
        if record is not None:
            self._store(record)

    def settle(self) -> Verdict | None:
        """Store and judge the record that is on its way, if any; waits for the device."""
        record = self.meter.flush()
        if record is not None:
            self._store(record)
        record, self._waiting = self._waiting, None
        if record is None:
            return None
        self.record = record
        verdict = self.detector.update(record)
        if verdict.findings:
            found = tuple(self._tell(finding, record.step) for finding in verdict.findings)
            verdict = replace(verdict, findings=found)
        self.verdict = verdict
        return verdict

    def finish(self) -> tuple[Finding, ...]:
        """Tell what is still open; the last record must have been settled."""
        step = 0 if self.record is None else self.record.step
        return tuple(self._tell(finding, step) for finding in self.detector.finish())

    def restart(self, *, attempt: int, step: int) -> None:
        """Begin another attempt after ``step``; what is on its way must have been settled."""
        self._attempt = attempt
        self.record, self.verdict = None, Verdict(step=step, status="warming_up")

    def close(self) -> None:
        """Store what has been measured and let the run folder go; it is judged by who reads it.

        The end of a process that failed: what cannot be done any more is left.
        """
        writer, self.writer = self.writer, None
        if writer is None:
            return
        with suppress(Exception):
            record = self.meter.flush()
            if record is not None:
                writer.append(record)
        with suppress(Exception):
            writer.close()

    def _store(self, record: StepRecord) -> None:
        self._waiting = record
        if self.writer is None:
            return
        self.writer.append(record)
        if record.values.get("update_skipped"):
            self.writer.ledger.append("update_skipped", step=record.step)

    def _tell(self, finding: Finding, step: int) -> Finding:
        """The finding with rewind and run named; in the ledger before anybody hears of it."""
        finding = with_checkpoints(finding, self.checkpoints())
        if self._name is not None:
            finding = for_run(finding, self._name)
        if self.writer is not None:
            last = finding.place.steps[1] if finding.place.steps else step
            self.writer.ledger.append("finding", step=last, finding=to_json(finding))
        return finding

"""The detector that runs, watches and logs are judged by: the loss and every other signal."""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.context import Context
from surefoot.detect.loss import LossDetector
from surefoot.records import Finding, Incident, StepRecord, TrainSpec, Verdict

FALSE_ALARMS_PER_10K = 0.5
"""False incidents that may come on 10 000 healthy records, if nothing else is asked for."""
FORMAT = 2


class SpikeDetector:
    """Watches the loss and every other signal of a run, one record at a time."""

    name = "spikes"

    def __init__(
        self,
        *,
        vocab_size: int | None = None,
        places: Mapping[str, tuple[str, ...]] | None = None,
        horizon: int = 200,
        spec: TrainSpec | None = None,
        false_alarms_per_10k: float = FALSE_ALARMS_PER_10K,
    ) -> None:
        self._loss = LossDetector(vocab_size=vocab_size, horizon=horizon)
        self._context = Context()

    @property
    def incident(self) -> Incident | None:
        """The incident that is open now."""
        return self._loss.incident

    def update(self, record: StepRecord) -> Verdict:
        """Judge the next record.

        Raises:
            ValueError: if ``step`` does not increase within an attempt.
        """
        self._context.update(record)
        return self._loss.update(record)

    def finish(self) -> tuple[Finding, ...]:
        """Findings on what is still open; changes nothing, so it may be called at any time."""
        return self._loss.finish()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "loss": self._loss.state_dict(),
            "context": self._context.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`, settings included.

        Raises:
            ValueError: if it was written in another format.
        """
        if state.get("format") != FORMAT:
            raise ValueError(
                f"expected detector state of format {FORMAT}, got {state.get('format')!r}"
            )
        self._loss.load_state_dict(state["loss"])
        self._context = Context.from_state(state["context"])

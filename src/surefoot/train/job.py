"""A run in memory: everything it needs, its checkpoints written and taken up."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from surefoot import runs
from surefoot.checkpoint import (
    CheckpointStore,
    TensorInfo,
    capture_random,
    restore_random,
    restore_training,
    training_tensors,
)
from surefoot.data import BatchRamp, Corpus
from surefoot.protocols import Detector
from surefoot.recipe import Recipe
from surefoot.train.custody import Custody
from surefoot.train.ranks import Ranks
from surefoot.train.state import TrainState
from surefoot.train.step import TrainStep
from surefoot.watching import Recorder


@dataclass(slots=True, kw_only=True)
class Job:
    """Everything a run needs; made by ``create`` and ``resume``.

    Attributes:
        recipe: resolved.
        folder: the run folder.
        ranks: this process among the others.
        corpus: what is fed.
        ramp: batch sizes over consumed samples.
        step: takes a batch, updates the model.
        recorder: stores each step's record and has it judged, as in any watched loop.
        store: the checkpoints.
        custody: which of them are trusted.
        state: where the run stands.
    """

    recipe: Recipe
    folder: Path
    ranks: Ranks
    corpus: Corpus
    ramp: BatchRamp
    step: TrainStep
    recorder: Recorder
    store: CheckpointStore
    custody: Custody
    state: TrainState

    @property
    def detector(self) -> Detector:
        """Judges each step's record."""
        return self.recorder.detector

    @property
    def writer(self) -> runs.RunWriter | None:
        """Of the run folder; None on the ranks that do not write."""
        return self.recorder.writer

    @property
    def device_name(self) -> str:
        """What the device calls itself."""
        device = self.ranks.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    def close(self) -> None:
        """Make everything durable and let the run folder go."""
        if self.writer is not None:
            self.writer.close()

    def save(self, quarantine: str | None = None) -> None:
        """Make rows durable, then commit a checkpoint: so no checkpoint outruns its rows.

        The caller has handed over every record up to the step being saved.
        """
        if self.writer is not None:
            self.writer.flush()
        tensors, hyper = _tensors(self.step)
        state = {
            "train": self.state.to_json(),
            "detector": self.detector.state_dict(),
            "custody": self.custody.state_dict(),
            "optimizer": hyper,
            "end_of_text": self.corpus.end_of_text,
        }
        self.store.save(self.state.step, tensors, state, quarantine=quarantine)
        self.custody.saved(self.state.step, quarantine)
        if self.writer is not None:
            self.writer.ledger.append("checkpoint", step=self.state.step, quarantine=quarantine)

    def restore(self, at: int) -> None:
        """Take up the checkpoint of step ``at``: model, optimizer, generators, position, detector.

        Raises:
            CheckpointError: if it is not intact, naming the file.
        """
        step = self.step
        # What state an optimizer keeps, only it and its checkpoint know before the first update.
        tensors, _ = _tensors(step, like=self.store.tensors(at))
        state = self.store.load(at, tensors)
        restore_training(step.model, step.optimizer, tensors, state["optimizer"])
        restore_random(tensors)
        extra = {name: tensors[f"extra.{name}"] for name in _extra(step)}
        if step.scaler is not None:
            step.scaler.load_state_dict(extra)
        if step.guards is not None:
            step.guards.load_state_dict(extra)
        self.state = TrainState.from_json(state["train"])
        self.detector.load_state_dict(state["detector"])
        self.custody.load_state_dict(state["custody"])


def _tensors(
    step: TrainStep, like: Mapping[str, TensorInfo] | None = None
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Every tensor that a checkpoint holds, and the optimizer's hyper-parameters."""
    tensors, hyper = training_tensors(step.model, step.optimizer, _extra(step), like=like)
    return tensors | capture_random(), hyper


def _extra(step: TrainStep) -> dict[str, torch.Tensor]:
    """State beside model and optimizer: of the loss scaler and of what clips and skips."""
    found = {} if step.scaler is None else dict(step.scaler.state_dict())
    return found if step.guards is None else found | step.guards.state_dict()

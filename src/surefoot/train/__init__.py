"""The trainer: wires data, model, optimizer, signals, detector and checkpoints into a run.

::

    from pathlib import Path
    from surefoot.recipe import load
    from surefoot.train import create, join, train
    recipe, sources = load("recipes/stdlib-1m.toml")
    job = create(recipe, sources, Path("runs/mine"), join("auto"), say=print)
    outcome = train(job, observer)
"""

from surefoot.train.asked import require_same
from surefoot.train.build import build_step, start_weights
from surefoot.train.evaluate import sample, validation_loss
from surefoot.train.job import Job
from surefoot.train.loop import Observer, Outcome, train
from surefoot.train.pretrained import adopt
from surefoot.train.ranks import Ranks, join, leave
from surefoot.train.reading import LoadedModel, finished_at, load_model, shown_batch
from surefoot.train.setup import create, resume
from surefoot.train.state import TrainState
from surefoot.train.step import IGNORE, StepOutcome, TrainStep
from surefoot.train.throughput import flops_per_token, mfu, peak_flops

__all__ = [
    "IGNORE",
    "Job",
    "LoadedModel",
    "Observer",
    "Outcome",
    "Ranks",
    "StepOutcome",
    "TrainState",
    "TrainStep",
    "adopt",
    "build_step",
    "create",
    "finished_at",
    "flops_per_token",
    "join",
    "leave",
    "load_model",
    "mfu",
    "peak_flops",
    "require_same",
    "resume",
    "sample",
    "shown_batch",
    "start_weights",
    "train",
    "validation_loss",
]

"""Checkpoints that are whole or not there, verified before anything is parsed, rotated by age.

::

    from pathlib import Path
    import torch
    from surefoot.checkpoint import CheckpointStore, restore_training, training_tensors

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    store = CheckpointStore(Path("runs/mine/checkpoints"), keep_newest=3, interval=100)

    tensors, hyper = training_tensors(model, optimizer)
    store.save(100, tensors, {"hyper": hyper, "consumed_samples": 6400})

    step = store.resumable()  # the newest intact one; None if there is none
    if step is not None:
        tensors, _ = training_tensors(model, optimizer)
        state = store.load(step, into=tensors)
        changed = restore_training(model, optimizer, tensors, state["hyper"])
"""

from surefoot.checkpoint.index import SIGNAL
from surefoot.checkpoint.keep import quarantined_to_keep, steps_to_keep
from surefoot.checkpoint.random_state import capture_random, restore_random
from surefoot.checkpoint.storage import TensorInfo
from surefoot.checkpoint.store import ABANDONED, CheckpointStore
from surefoot.checkpoint.training import restore_training, training_tensors, unwrap

__all__ = [
    "ABANDONED",
    "SIGNAL",
    "CheckpointStore",
    "TensorInfo",
    "capture_random",
    "quarantined_to_keep",
    "restore_random",
    "restore_training",
    "steps_to_keep",
    "training_tensors",
    "unwrap",
]

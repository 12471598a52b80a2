"""Watch any training loop: the same signals and the same detector as surefoot's own trainer.

::

    watch = surefoot.watch(model, optimizer, run="runs/mine")
    for inputs, targets in batches:
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        watch.loss(loss)
        verdict = watch.step()                   # a value: nothing acts unless you do
        for finding in verdict.findings:
            print(finding.code, finding.message)
        optimizer.zero_grad()
    watch.finish()

Gradients, learning rate and update are measured inside ``optimizer.step()``, through torch's hooks,
so that gradient scalers, schedulers and wrappers of the loop do not matter. Nothing waits for the
device; a step's numbers arrive with the next one, and so does the verdict on it.
"""

from pathlib import Path

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from surefoot.errors import UsageError
from surefoot.protocols import Detector
from surefoot.records import TrainSpec
from surefoot.signals import Meter
from surefoot.watching.environment import fingerprint, note_changes
from surefoot.watching.folder import RunFolder, spec_of
from surefoot.watching.hooks import bare_model, inner_optimizer, is_compiled
from surefoot.watching.levels import LevelName, level_of
from surefoot.watching.recorder import Recorder, default_detector
from surefoot.watching.watcher import Watch

__all__ = ["Recorder", "Watch", "default_detector", "fingerprint", "note_changes", "watch"]


def watch(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    run: Path | str | None = None,
    level: LevelName = "standard",
    vocab_size: int | None = None,
    detector: Detector | None = None,
    sample_every: int | None = None,
    resume_at: int | None = None,
    spec: TrainSpec | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> Watch:
    """Watch the training of ``model`` by ``optimizer``.

    Args:
        model: any module; bare, compiled or in DistributedDataParallel.
        optimizer: any torch optimizer of its parameters, also inside accelerate's wrapper. Where
            several share the model, the one that steps last.
        run: run folder to write, e.g. ``runs/mine``; ``surefoot report`` and ``surefoot diagnose``
            read it, also while it grows. One that exists is gone on with after
            :meth:`Watch.load_state_dict`. Of several ranks the first writes. Default: none.
        level: ``light`` (loss, global gradient norm, learning rate), ``standard`` (by parameter
            too; update sizes and Adam's state sampled) or ``full`` (those at each step, attention
            logits where the model measures them).
        vocab_size: number of tokens: ln of it is the loss of a model that knows nothing.
        detector: judges each step. Default: surefoot's own.
        sample_every: steps between the sampled signals; default 20, at level ``full`` 1.
        resume_at: steps that the loaded model has been trained for, to go on with the run folder
            where no state of watch was saved; 0 begins anew.
        spec: what more is known of the run, e.g. ``surefoot.readers.read_spec("train.yaml")``.
        process_group: ranks over which losses are averaged; every one of them must then call
            :meth:`Watch.step`. None: this process's loss.

    Raises:
        UsageError: if the optimizer is not torch's, the model has nothing to measure, or a setting
            is not known.
        RunFolderError: if ``run`` is something else than a run folder, or is being written.
    """
    inner = inner_optimizer(optimizer)
    chosen = level_of(level, sample_every)
    if resume_at is not None and resume_at < 0:
        raise UsageError(f"resume_at counts steps that were taken, got {resume_at}")
    meter = Meter(
        bare_model(model),
        inner,
        sample_every=chosen.sample_every,
        process_group=process_group,
        light=chosen.light,
    )
    rank, world = _rank(process_group)
    path = None if run is None else Path(run)
    name = None if path is None else path.resolve().name
    told = spec_of(model, inner, chosen, name=name, vocab_size=vocab_size, world=world, given=spec)
    if detector is None:
        vocab_size = told.architecture.vocab_size
        detector = default_detector(vocab_size=vocab_size, places=meter.places, spec=told)
    folder = None
    if path is not None and rank == 0:
        device = next(p.device for p in model.parameters() if p.requires_grad)
        folder = RunFolder(path=path, spec=told, device=device, world=world)
    return Watch(
        model,
        inner,
        Recorder(meter, detector, name=name),
        folder=folder,
        step=resume_at,
        attention=chosen.attention and not is_compiled(model),
        several=process_group is not None,
    )


def _rank(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Rank and number of processes, of the group or of all there are."""
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)

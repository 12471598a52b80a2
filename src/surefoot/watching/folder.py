"""The run folder of a loop that is not surefoot's: made or gone on with, and its spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot import runs
from surefoot.errors import UsageError
from surefoot.records import (
    ArchitectureSpec,
    OptimizerSpec,
    ParallelismSpec,
    PrecisionSpec,
    Source,
    TrainSpec,
)
from surefoot.watching.environment import fingerprint, note_changes
from surefoot.watching.hooks import is_compiled
from surefoot.watching.levels import Level

TRAINER = "surefoot.watch"
"""The trainer that such a run's spec names."""

_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """A run folder that this process writes.

    Attributes:
        path: the folder.
        spec: what is known of what the run was asked to do.
        device: where the model is.
        world: number of processes.
    """

    path: Path
    spec: TrainSpec
    device: torch.device
    world: int

    def exists(self) -> bool:
        """Whether there is a run to go on with.

        Raises:
            RunFolderError: if something else is there.
        """
        if not self.path.exists():
            return False
        runs.read_spec(self.path)
        return True

    def create(self, places: Mapping[str, Sequence[str]]) -> runs.RunWriter:
        """Begin a new run."""
        environment = fingerprint(self.device, self.world)
        return runs.RunWriter.create(self.path, self.spec, environment, places)

    def resume(self, step: int, places: Mapping[str, Sequence[str]]) -> runs.RunWriter:
        """Go on after ``step``, as a new attempt; later rows move to ``attempts/``."""
        writer = runs.RunWriter.resume(self.path, step, places)
        note_changes(writer, fingerprint(self.device, self.world))
        return writer

    def refuse(self) -> UsageError:
        """What to type where it is not known at which step to go on."""
        return UsageError(
            f"{self.path} is a run that was begun before: call watch.load_state_dict(state) with "
            "what watch.state_dict() gave beside the checkpoint you loaded; without one type "
            f'surefoot.watch(..., run="{self.path}", resume_at=STEP), 0 to begin anew, or give '
            "another folder"
        )


def spec_of(
    model: nn.Module,
    optimizer: Optimizer,
    level: Level,
    *,
    name: str | None = None,
    vocab_size: int | None = None,
    world: int = 1,
    given: TrainSpec | None = None,
) -> TrainSpec:
    """What a model and its optimizer say of a run; what ``given`` states prevails.

    Args:
        model: as it is trained, in its wrappers.
        optimizer: torch's own.
        level: what is measured.
        name: of the run, if it has one.
        vocab_size: number of tokens, if known.
        world: number of processes.
        given: what the caller knows, e.g. read from configuration files.
    """
    groups = optimizer.param_groups

    def largest(key: str, *index: int) -> float | None:
        found = [_number(group[key], *index) for group in groups if key in group]
        return max((value for value in found if value is not None), default=None)

    # A scheduler has lowered `lr` by now, and kept what was asked for.
    rate = largest("initial_lr")
    weights = [p for p in model.parameters() if p.requires_grad]
    dtypes = {_DTYPES.get(p.dtype, str(p.dtype).removeprefix("torch.")) for p in weights}
    spec = TrainSpec(
        name=name,
        trainer=TRAINER,
        architecture=ArchitectureSpec(vocab_size=vocab_size),
        optimizer=OptimizerSpec(
            name=type(optimizer).__name__.lower(),
            learning_rate=largest("lr") if rate is None else rate,
            beta1=largest("betas", 0),
            beta2=largest("betas", 1),
            eps=largest("eps"),
            weight_decay=largest("weight_decay"),
            momentum=largest("momentum"),
            fused=True if groups and all(group.get("fused") for group in groups) else None,
        ),
        precision=PrecisionSpec(master=dtypes.pop() if len(dtypes) == 1 else None),
        parallelism=ParallelismSpec(world_size=world, compile=True if is_compiled(model) else None),
        options={
            "watch": {
                "level": level.name,
                "sample_every": level.sample_every,
                "model": type(model).__name__,
                "parameters": sum(p.numel() for p in weights),
            }
        },
    )
    origin = Source(kind="derived", flag="the model and the optimizer given to surefoot.watch")
    spec = replace(spec, sources=dict.fromkeys(spec.stated(), origin))
    return spec if given is None else _over(spec, given)


def _over(spec: TrainSpec, given: TrainSpec) -> TrainSpec:
    """``spec`` with what ``given`` states in its place."""
    stated = given.stated()
    changed: dict[str, Any] = {
        "options": {**spec.options, **given.options},
        "environment": given.environment,
        "sources": {
            **{field: source for field, source in spec.sources.items() if field not in stated},
            **given.sources,
        },
    }
    for section in fields(given):
        value = getattr(given, section.name)
        if is_dataclass(value) and not isinstance(value, type):
            own = {f.name: getattr(value, f.name) for f in fields(value)}
            known = {name: item for name, item in own.items() if item is not None}
            changed[section.name] = replace(getattr(spec, section.name), **known)
    if given.seed is not None:
        changed["seed"] = given.seed
    return replace(spec, **changed)


def _number(value: Any, *index: int) -> float | None:
    """A setting as a host number; None for one that is not a number or lies on a device."""
    if index:
        value = value[index[0]] if isinstance(value, list | tuple) else None
    if isinstance(value, Tensor):
        value = value.item() if value.numel() == 1 and value.device.type == "cpu" else None
    return float(value) if isinstance(value, int | float) else None

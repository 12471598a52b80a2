"""A recipe: a whole run as TOML, and its way into the normal form of a TrainSpec and back."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError, model_validator

from surefoot.errors import RecipeError
from surefoot.recipe.messages import explain
from surefoot.recipe.sections import (
    Architecture,
    Batch,
    Checkpoint,
    Count,
    Data,
    Detection,
    Evaluation,
    Init,
    Loss,
    Optimizer,
    Precision,
    Schedule,
    Section,
    Signals,
    Training,
)
from surefoot.recipe.together import (
    check_architecture,
    check_batch,
    check_init,
    check_optimizer,
    head_factor,
)
from surefoot.recipe.words import count
from surefoot.records import Source, TrainSpec
from surefoot.records import spec as specs


class Recipe(Section):
    """Everything a run is asked to do.

    Read one with :func:`surefoot.recipe.load`. Values are checked one by one and against each other
    (a warm-up longer than the run, heads that do not divide the width).
    """

    name: str | None = None
    """What the recipe is called; the run's name is given on the command line."""
    seed: Count = 1
    """Seed of initialisation and, unless data.seed is given, of the data order."""
    architecture: Architecture
    init: Init = Init()
    loss: Loss = Loss()
    optimizer: Optimizer
    schedule: Schedule
    precision: Precision = Precision()
    batch: Batch
    data: Data
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    checkpoint: Checkpoint = Checkpoint()
    signals: Signals = Signals()
    detection: Detection = Detection()

    @model_validator(mode="after")
    def _check_together(self) -> "Recipe":
        a, b, s = self.architecture, self.batch, self.schedule
        check_architecture(a)
        check_init(self.init, a)
        check_optimizer(self.optimizer)
        if self.optimizer.shallow_layers > a.layers:
            raise ValueError(
                f"optimizer.shallow_layers = {self.optimizer.shallow_layers} exceeds "
                f"architecture.layers = {a.layers}"
            )
        if b.length_steps is not None and b.length_steps > s.steps:
            raise ValueError(
                f"batch.length_steps = {b.length_steps} is longer than the run, schedule.steps = "
                f"{s.steps}: the full sequence length would never be reached"
            )
        if s.warmup_steps > s.steps:
            usual = max(1, s.steps // 50)
            raise ValueError(
                f"schedule.warmup_steps = {s.warmup_steps} is longer than the run, schedule.steps "
                f"= {s.steps}; a usual warm-up is {count(usual, 'step')}: type --set "
                f"schedule.warmup_steps={usual}"
            )
        if s.decay_steps is not None and s.kind != "wsd":
            raise ValueError(f'schedule.decay_steps goes with kind = "wsd", not {s.kind!r}')
        if s.decay_steps is not None and s.warmup_steps + s.decay_steps > s.steps:
            raise ValueError(
                f"schedule.warmup_steps + decay_steps = {s.warmup_steps + s.decay_steps} is longer "
                f"than the run, schedule.steps = {s.steps}"
            )
        check_batch(b)
        if b.length_from is not None and b.length_from > a.sequence_length:
            raise ValueError(
                f"batch.length_from = {b.length_from} exceeds architecture.sequence_length = "
                f"{a.sequence_length}"
            )
        for i, source in enumerate(self.data.sources):
            if (source.path is None) == (source.kind == "files"):
                word = "needs a" if source.kind == "files" else "takes no"
                item = f"data.sources[{i}]"
                raise ValueError(f'{item}.kind = "{source.kind}" {word} {item}.path')
        return self

    # Values that the sections leave to be derived.

    @property
    def data_seed(self) -> int:
        """Seed of the order of the samples and of the split."""
        return self.seed if self.data.seed is None else self.data.seed

    def resolved(self) -> "Recipe":
        """The same run with every derived default and every word (`small`, `auto`) as its value."""
        a, i, b, s = self.architecture, self.init, self.batch, self.schedule
        stds = i.standard_deviations(a.width, a.input_factor)
        drawn: dict[str, Any] = {}
        if stds is not None:
            names = ("std", "embedding_std", "depth_scaled_outputs")
            drawn = dict(zip(names, stds, strict=True))
        decay_steps = s.decay_steps
        if s.kind == "wsd" and decay_steps is None:
            decay_steps = min(max(1, s.steps // 10), s.steps - s.warmup_steps)
        return self.model_copy(
            update={
                "architecture": a.model_copy(
                    update={
                        "kv_heads": a.key_value_heads,
                        "ff_width": a.inner_width,
                        "embedding_scale": a.input_factor,
                        "head_scale": head_factor(a, i),
                        "attention_scale": a.logit_factor,
                        "residual_scale": a.shortcut_factor
                        if a.norm_placement == "deepnorm"
                        else a.residual_scale,
                    }
                ),
                "init": i.model_copy(update=drawn),
                "schedule": s.model_copy(update={"decay_steps": decay_steps}),
                "batch": b.model_copy(update={"micro_size": b.micro_size or b.global_size}),
                "data": self.data.model_copy(update={"seed": self.data_seed}),
            }
        )

    def to_spec(self, sources: Mapping[str, Source] | None = None) -> TrainSpec:
        """The normal form of :meth:`resolved`; the rest goes to ``options``, by section."""
        written = self.resolved().model_dump(mode="json", exclude_none=True)
        normal: dict[str, Any] = {"name": self.name, "seed": self.seed, "trainer": "surefoot"}
        options: dict[str, Any] = {}
        for section, values in written.items():
            if not isinstance(values, dict):
                continue
            kind = _SPEC_SECTIONS.get(section)
            known = {f.name for f in dataclasses.fields(kind)} if kind else set()
            rest = {k: v for k, v in values.items() if v is not None and not _normal(k, known)}
            if kind:
                normal[section] = kind(**{k: v for k, v in values.items() if _normal(k, known)})
            if rest:
                options[section] = rest
        normal["architecture"] = dataclasses.replace(
            normal["architecture"],
            head_dim=self.architecture.width // self.architecture.heads,
            position="rope",
            bias=False,
            dropout=0.0,
        )
        normal["data"] = dataclasses.replace(
            normal["data"],
            sources=tuple(s.path or s.kind for s in self.data.sources),
            weights=tuple(s.weight for s in self.data.sources),
        )
        return TrainSpec(**normal, options=options, sources=dict(sources or {}))

    @classmethod
    def from_spec(cls, spec: TrainSpec) -> "Recipe":
        """The resolved recipe of a spec that :meth:`to_spec` made."""
        data: dict[str, Any] = {"name": spec.name, "seed": spec.seed}
        for section in cls.model_fields:
            if section in ("name", "seed"):
                continue
            fields = cls.model_fields[section].annotation
            known = set(fields.model_fields) if fields is not None else set()
            values = dict(spec.options.get(section, {}))
            if section in _SPEC_SECTIONS:
                part = getattr(spec, section)
                for item in dataclasses.fields(part):
                    value = getattr(part, item.name)
                    if item.name in known and item.name not in values and value is not None:
                        values[item.name] = value
            if values:
                data[section] = values
        return cls.parse(data, where="spec.toml")

    @classmethod
    def parse(
        cls, data: Mapping[str, Any], *, where: str, at: Mapping[str, str] | None = None
    ) -> "Recipe":
        """Validate a table; RecipeError names file, line, field, what was got and expected.

        Args:
            data: the table, as TOML gives it.
            where: what the table was read from.
            at: where single fields were stated, by dotted name: ``file:line`` or ``--set ...``.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise RecipeError(explain(error, cls, where, at or {})) from None


_SPEC_SECTIONS: dict[str, Any] = {
    "architecture": specs.ArchitectureSpec,
    "init": specs.InitSpec,
    "loss": specs.LossSpec,
    "optimizer": specs.OptimizerSpec,
    "schedule": specs.ScheduleSpec,
    "precision": specs.PrecisionSpec,
    "batch": specs.BatchSpec,
    "data": specs.DataSpec,
}


def _normal(name: str, known: set[str]) -> bool:
    """Whether a field has a place in the normal form; data.sources is flattened there."""
    return name in known and name != "sources"

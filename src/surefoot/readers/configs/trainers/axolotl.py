"""axolotl: its YAML, whose keys partly are transformers' arguments under other names."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._axolotl_names import KNOWN
from surefoot.readers.configs.trainers._shared import (
    Signed,
    flag,
    number,
    positive,
    say_each,
    share,
)
from surefoot.readers.configs.trainers._training_arguments import sharding


def _steps(value: Any) -> Any:
    """Steps; a share of the run is none."""
    number = positive(value)
    return number if number is not None and number >= 1 else None


def _recompute(value: Any) -> str:
    return "none" if value in (False, "false", None) else "full"


class Axolotl(Signed):
    """``axolotl train config.yml``."""

    name = "axolotl"
    title = "axolotl"
    version = "axolotl 0.19"
    kinds = frozenset({"yaml", "json"})
    autos = frozenset({"auto", "AUTO"})
    nested = ("deepspeed",)
    keys: ClassVar[Mapping[str, str | To]] = {
        "wandb_name": "name",
        "seed": "seed",
        "sequence_len": "architecture.sequence_length",
        "micro_batch_size": "batch.micro_size",
        "gradient_accumulation_steps": "batch.accumulation",
        "num_epochs": "schedule.epochs",
        "max_steps": To("schedule.steps", positive),
        "warmup_steps": To("schedule.warmup_steps", lambda v: v if v == 0 else _steps(v)),
        "warmup_ratio": To("schedule.warmup_fraction", share),
        "lr_scheduler": To("schedule.kind", words.schedule),
        "cosine_min_lr_ratio": "schedule.final_factor",
        "lr_scheduler_kwargs.min_lr": "schedule.min_learning_rate",
        "learning_rate": "optimizer.learning_rate",
        "optimizer": To("optimizer.name", words.optimizer, keep=True),
        "weight_decay": "optimizer.weight_decay",
        "adam_beta1": "optimizer.beta1",
        "adam_beta2": "optimizer.beta2",
        "adam_epsilon": "optimizer.eps",
        "max_grad_norm": "optimizer.clip_norm",
        "bf16": To("precision.compute", lambda v: "bf16" if v in (True, "true", "full") else None),
        "bfloat16": To("precision.compute", flag("bf16")),
        "fp16": To("precision.compute", flag("fp16")),
        "float16": To("precision.compute", flag("fp16")),
        "float32": To("precision.compute", flag("fp32")),
        "fp8": To("precision.compute", flag("fp8")),
        "tf32": "precision.tf32",
        "gradient_checkpointing": To("parallelism.recompute", _recompute),
        "torch_compile": "parallelism.compile",
        "fsdp": To("parallelism.fsdp", sharding),
        "tensor_parallel_size": "parallelism.tensor",
        "context_parallel_size": "parallelism.context",
        "sequence_parallel_degree": "parallelism.context",
        "expert_parallel_size": "parallelism.expert",
        "world_size": "parallelism.world_size",
        "val_set_size": To("data.validation_fraction", lambda v: v if v == 0 else share(v)),
        "tokenizer_config": "data.tokenizer",
        "tokenizer_type": "data.tokenizer_kind",
        "dataloader_num_workers": "data.workers",
        "logging_steps": To("interval.log", _steps),
        "save_steps": To("interval.checkpoint", _steps),
        "eval_steps": To("interval.evaluate", _steps),
    }
    known = KNOWN
    signs = frozenset(
        {"base_model", "sequence_len", "sample_packing", "val_set_size", "pad_to_sequence_len",
         "dataset_prepared_path", "datasets[].type", "evals_per_epoch", "saves_per_epoch",
         "lora_target_linear", "train_on_inputs", "pretraining_dataset[].path"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Data, the ranks that share it, steps against epochs."""
        say_each(draft, "data.sources", "datasets[].path")
        say_each(draft, "data.sources", "pretraining_dataset[].path")
        if isinstance(draft.value("pretraining_dataset"), str):
            say_each(draft, "data.sources", "pretraining_dataset")
        if "schedule.steps" in draft.statements:
            draft.unsay("schedule.epochs")
        shards, copies = number(draft, "dp_shard_size"), number(draft, "dp_replicate_size")
        if shards and shards > 0:
            draft.say("parallelism.data", shards * (copies or 1), "dp_shard_size")
        warmup = number(draft, "warmup_steps")
        if warmup is not None and 0 < warmup < 1:  # a share, as in transformers 5
            draft.say("schedule.warmup_fraction", warmup, "warmup_steps")
        elif warmup:
            draft.unsay("schedule.warmup_fraction")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What the schema fills in, and below it transformers."""
        found = dict(_FILLS)
        if "schedule.steps" not in spec:
            found["schedule.epochs"] = 1.0
        if spec.get("schedule.kind", "cosine") in ("cosine", "linear"):
            if not {"schedule.final_factor", "schedule.min_learning_rate"} & spec.keys():
                found["schedule.final_factor"] = 0.0
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 42,
    "architecture.sequence_length": 512,
    "batch.micro_size": 1,
    "batch.accumulation": 1,
    "schedule.kind": "cosine",
    "optimizer.name": "adamw",
    "optimizer.weight_decay": 0.0,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.clip_norm": 1.0,
    "parallelism.recompute": "none",
    "data.validation_fraction": 0.0,
}

FORMAT = Axolotl()

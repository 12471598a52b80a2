"""accelerate: its own config YAML, and settings of a loop that it prepares."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers._training_arguments import sharding

_SHARDINGS = {"1": "full", "2": "grad-op", "3": "none", "4": "hybrid", "5": "hybrid"}


def _sharding(value: Any) -> str | None:
    return _SHARDINGS.get(str(value)) or sharding(value)


class Accelerate(ConfigFormat):
    """``accelerate config``; ranks are counted in processes."""

    name = "accelerate"
    title = "accelerate"
    version = "accelerate 1.0"
    kinds = frozenset({"yaml", "json"})
    rank = 1
    keys: ClassVar[Mapping[str, str | To]] = {
        "num_processes": "parallelism.world_size",
        "num_machines": "parallelism.nodes",
        "mixed_precision": To("precision.compute", words.number_format),
        "gradient_accumulation_steps": "batch.accumulation",
        "deepspeed_config.gradient_accumulation_steps": "batch.accumulation",
        "deepspeed_config.gradient_clipping": "optimizer.clip_norm",
        "deepspeed_config.zero_stage": "parallelism.zero_stage",
        "fsdp_config.fsdp_sharding_strategy": To("parallelism.fsdp", _sharding),
        "fsdp_config.fsdp_activation_checkpointing": To(
            "parallelism.recompute", lambda v: "full" if v is True else None
        ),
        "dynamo_config.dynamo_backend": To(
            "parallelism.compile", lambda v: str(v).lower() not in ("no", "none")
        ),
        "max_steps": "schedule.steps",
        "max_train_steps": "schedule.steps",
        "lr": "optimizer.learning_rate",
        "learning_rate": "optimizer.learning_rate",
        "scheduler": To("schedule.kind", words.schedule),
        "lr_scheduler_type": To("schedule.kind", words.schedule),
        "warmup_steps": "schedule.warmup_steps",
        "num_warmup_steps": "schedule.warmup_steps",
        "weight_decay": "optimizer.weight_decay",
        "max_grad_norm": "optimizer.clip_norm",
        "batch_size": "batch.micro_size",
        "per_device_train_batch_size": "batch.micro_size",
        "seed": "seed",
    }
    known = frozenset(
        """
        compute_environment debug deepspeed_config.* distributed_type downcast_bf16
        dynamo_config.* dynamo_config enable_cpu_affinity fp8_config.* fsdp_config.* fsdp_config
        gpu_ids framework ipex_config.* machine_rank main_process_ip main_process_port
        main_training_function megatron_lm_config.* megatron_lm_config mpirun_config.*
        parallelism_config.* rdzv_backend same_network split_batches step_scheduler_with_optimizer
        even_batches dispatch_batches tpu_env tpu_name tpu_zone tpu_use_cluster tpu_use_sudo
        use_cpu command_file commands deepspeed_config sagemaker_inputs_file
        """.split()
    )
    signs = frozenset({"compute_environment", "main_training_function", "downcast_bf16",
                       "split_batches", "step_scheduler_with_optimizer"})  # fmt: skip

    def score(self, document: Document) -> float:
        """Also where the file says so itself."""
        score = super().score(document)
        framework = document.leaves.get("framework")
        if score > 0 and framework is not None and "accelerate" in str(framework.value).lower():
            score = max(score, 0.95)
        return score

    def interpret(self, draft: Draft) -> None:
        """What is kept in the memory of the processor."""
        away = {
            what: key
            for what, key in (("optimizer", "deepspeed_config.offload_optimizer_device"),
                              ("parameters", "deepspeed_config.offload_param_device"))
            if str(draft.value(key, "none")).lower() != "none"
        }  # fmt: skip
        if draft.true("fsdp_config.fsdp_offload_params"):
            away = dict.fromkeys(("optimizer", "parameters"), "fsdp_config.fsdp_offload_params")
        if away:
            what = "both" if len(away) == 2 else next(iter(away))
            draft.say("parallelism.offload", what, next(iter(away.values())))


FORMAT = Accelerate()

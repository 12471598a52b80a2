"""DeepSpeed: its JSON file, beside a trainer's own configuration or alone."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import ConfigFormat, Draft, To


def _if(word: str) -> Any:
    return lambda value: word if value is True else None


def _power(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 64:
        raise ValueError("expected a power of two, 0 to 64")
    return float(2.0**value)


class DeepSpeed(ConfigFormat):
    """``ds_config.json``. Its values win over a script's flags; ``auto`` is the trainer's."""

    name = "deepspeed"
    title = "DeepSpeed"
    version = "DeepSpeed 0.16"
    kinds = frozenset({"json", "yaml"})
    rank = 0
    repeats = "refused"
    autos = frozenset({"auto"})
    against: ClassVar[Mapping[str, Mapping[str, str]]] = {
        # The engine of Megatron-DeepSpeed is built from this file.
        "megatron": {
            "optimizer.clip_norm": "wins",
            "precision.": "wins",
            "parallelism.zero_stage": "wins",
        },
        "transformers": {"": "refuses"},
    }
    keys: ClassVar[Mapping[str, str | To]] = {
        "train_batch_size": "batch.global_size",
        "train_micro_batch_size_per_gpu": "batch.micro_size",
        "gradient_accumulation_steps": "batch.accumulation",
        "gradient_clipping": "optimizer.clip_norm",
        "seed": "seed",
        "optimizer.type": To("optimizer.name", words.optimizer),
        "optimizer.params.lr": "optimizer.learning_rate",
        "optimizer.params.eps": "optimizer.eps",
        "optimizer.params.weight_decay": "optimizer.weight_decay",
        "optimizer.params.momentum": "optimizer.momentum",
        "scheduler.type": To("schedule.kind", words.schedule),
        "scheduler.params.warmup_min_lr": "schedule.warmup_from",
        "scheduler.params.warmup_num_steps": "schedule.warmup_steps",
        "scheduler.params.total_num_steps": "schedule.steps",
        "scheduler.params.cos_min_ratio": "schedule.final_factor",
        "fp16.initial_scale_power": To("precision.initial_loss_scale", _power),
        "fp16.loss_scale_window": "precision.loss_scale_window",
        "fp16.hysteresis": "precision.loss_scale_hysteresis",
        "fp16.min_loss_scale": "precision.min_loss_scale",
        "communication_data_type": To("precision.gradient_reduce", words.number_format),
        "zero_optimization.stage": "parallelism.zero_stage",
        "zero_optimization.overlap_comm": "parallelism.overlap_grad_reduce",
        "activation_checkpointing.partition_activations": To("parallelism.recompute", _if("full")),
        "tensor_parallel.autotp_size": To("parallelism.tensor", lambda v: v or None),
        "tensor_parallel.tp_size": To("parallelism.tensor", lambda v: v or None),
        "compile.enabled": "parallelism.compile",
    }
    known = frozenset(
        """
        zero_optimization.* fp16.* bf16.* bfloat16.* amp.* optimizer.* scheduler.* aio.*
        activation_checkpointing.* flops_profiler.* tensorboard.* wandb.* comet.* csv_monitor.*
        comms_logger.* curriculum_learning.* data_efficiency.* autotuning.* elasticity.*
        eigenvalue.* sparse_attention.* compression_training.* checkpoint.* pipeline.*
        progressive_layer_drop.* compile.* tensor_parallel.* data_types.* hybrid_engine.* nebula.*
        quantize_training.* moe.* communication_data_type disable_allgather dump_state
        fp32_allreduce gradient_predivide_factor graph_harvesting load_universal_checkpoint
        memory_breakdown optimizer prescale_gradients scheduler
        seq_parallel_communication_data_type sparse_gradients steps_per_print train_batch_size
        use_data_before_expert_parallel use_node_local_storage wall_clock_breakdown
        weight_quantization.* zero_allow_untested_optimizer zero_force_ds_cpu_optimizer
        zero_optimization fp16 bf16 dataloader_drop_last data_sampling.* zenflow.*
        monitor_config.*
        """.split()
    )
    signs = frozenset(
        {"train_micro_batch_size_per_gpu", "zero_optimization.stage", "zero_optimization.*",
         "zero_allow_untested_optimizer", "steps_per_print", "wall_clock_breakdown",
         "fp16.initial_scale_power", "fp16.loss_scale_window"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Switches of sections, betas, static loss scale, off-loading."""
        for key, word in (("fp16.enabled", "fp16"), ("bf16.enabled", "bf16"),
                          ("bfloat16.enabled", "bf16"), ("amp.enabled", "fp16")):  # fmt: skip
            if draft.value(key) == "auto":
                draft.leave("precision.compute", key, "'auto': left to the trainer")
            elif draft.true(key):
                draft.say("precision.compute", word, key)
        scale = draft.number("fp16.loss_scale")
        if scale:
            draft.say("precision.static_loss_scale", scale, "fp16.loss_scale")
            draft.unsay("precision.initial_loss_scale")
        betas = draft.value("optimizer.params.betas")
        if betas == "auto":
            for name in ("beta1", "beta2"):
                draft.leave(f"optimizer.{name}", "optimizer.params.betas", "'auto'")
        elif isinstance(betas, tuple) and len(betas) == 2:
            draft.say("optimizer.beta1", betas[0], "optimizer.params.betas")
            draft.say("optimizer.beta2", betas[1], "optimizer.params.betas")
        peak = "scheduler.params.warmup_max_lr"
        if draft.value(peak) == "auto":
            draft.leave("optimizer.learning_rate", peak, "'auto': left to the trainer")
        elif draft.has(peak):
            draft.say("optimizer.learning_rate", draft.value(peak), peak)
        self._offload(draft)

    def _offload(self, draft: Draft) -> None:
        places = {
            "optimizer": "zero_optimization.offload_optimizer.device",
            "parameters": "zero_optimization.offload_param.device",
        }
        away = {
            what: key
            for what, key in places.items()
            if draft.value(key) not in (None, "none", False)
        }
        if draft.true("zero_optimization.cpu_offload"):
            away.setdefault("optimizer", "zero_optimization.cpu_offload")
        if away:
            what = "both" if len(away) == 2 else next(iter(away))
            draft.say("parallelism.offload", what, next(iter(away.values())))

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """Clipping is off, and gradients are reduced in the format that is computed in."""
        found: dict[str, Any] = {"optimizer.clip_norm": 0.0, "parallelism.zero_stage": 0}
        compute = spec.get("precision.compute")
        found["precision.gradient_reduce"] = compute or "fp32"
        found["precision.compute"] = "fp32"
        if compute == "fp16" and "precision.static_loss_scale" not in spec:
            found |= {
                "precision.initial_loss_scale": 2.0**16,
                "precision.loss_scale_window": 1000,
                "precision.loss_scale_hysteresis": 2,
                "precision.min_loss_scale": 1.0,
            }
        if draft.has("optimizer.type"):
            found |= {
                "optimizer.beta1": 0.9,
                "optimizer.beta2": 0.999,
                "optimizer.eps": 1e-8,
                "optimizer.weight_decay": 0.0,
            }
        return found


FORMAT = DeepSpeed()

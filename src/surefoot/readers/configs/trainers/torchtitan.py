"""torchtitan: the TOML of its JobConfig, its flags, and its configuration as JSON."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import Signed, flag, number, positive, under

_FLAVORS: Mapping[tuple[str, str], tuple[int, int, int, int, int]] = {
    # (layers, width, heads, kv heads, feed-forward width)
    ("llama3", "debugmodel"): (6, 256, 16, 16, 768),
    ("llama3", "8B"): (32, 4096, 32, 8, 14336),
    ("llama3", "70B"): (80, 8192, 64, 8, 28672),
    ("llama3", "405B"): (126, 16384, 128, 8, 53248),
}
_LLAMA3: Mapping[str, Any] = {
    "architecture.norm": "rmsnorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "swiglu",
    "architecture.position": "rope",
    "architecture.rope_theta": 500000.0,
    "architecture.tied_embeddings": False,
    "architecture.qk_norm": False,
    "architecture.bias": False,
    "architecture.dropout": 0.0,
    "init.method": "trunc-normal",
    "init.std": 0.02,
    "init.embedding_std": 1.0,
    "init.depth_scaled_outputs": True,
}


class Torchtitan(Signed):
    """``train_configs/llama3_8b.toml``. The model is a name and a flavour of it."""

    name = "torchtitan"
    title = "torchtitan"
    version = "torchtitan 0.2"
    kinds = frozenset({"toml", "arguments", "json", "yaml"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "training.seed": "seed",
        "debug.seed": "seed",
        "training.seq_len": "architecture.sequence_length",
        "training.batch_size": "batch.micro_size",
        "training.local_batch_size": "batch.micro_size",
        "training.global_batch_size": To("batch.global_size", positive),
        "training.gradient_accumulation_steps": "batch.accumulation",
        "training.max_norm": "optimizer.clip_norm",
        "training.steps": "schedule.steps",
        "training.warmup_steps": "schedule.warmup_steps",
        "training.mixed_precision_param": To("precision.compute", words.number_format),
        "training.mixed_precision_reduce": To("precision.gradient_reduce", words.number_format),
        "training.dtype": To("precision.master", words.number_format),
        "training.enable_cpu_offload": To("parallelism.offload", flag("both", "none")),
        "training.compile": "parallelism.compile",
        "compile.enable": "parallelism.compile",
        "training.dataset": "data.sources",
        "dataloader.dataset": "data.sources",
        "model.norm_type": To("architecture.norm", words.norm),
        "model.tokenizer_path": "data.tokenizer",
        "model.hf_assets_path": "data.tokenizer",
        "hf_assets_path": "data.tokenizer",
        "optimizer.name": To("optimizer.name", words.optimizer, keep=True),
        "optimizer.lr": "optimizer.learning_rate",
        "optimizer.beta1": "optimizer.beta1",
        "optimizer.beta2": "optimizer.beta2",
        "optimizer.eps": "optimizer.eps",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.fused": "optimizer.fused",
        "optimizer.implementation": To("optimizer.fused", lambda v: v == "fused"),
        "optimizer.state_dtype": To("precision.moments", words.number_format),
        "lr_scheduler.warmup_steps": "schedule.warmup_steps",
        "lr_scheduler.lr_min": "schedule.final_factor",
        "lr_scheduler.min_lr_factor": "schedule.final_factor",
        "lr_scheduler.total_steps": "schedule.decay_steps",
        "parallelism.tensor_parallel_degree": "parallelism.tensor",
        "training.tensor_parallel_degree": "parallelism.tensor",
        "parallelism.pipeline_parallel_degree": "parallelism.pipeline",
        "training.pipeline_parallel_degree": "parallelism.pipeline",
        "experimental.pipeline_parallel_degree": "parallelism.pipeline",
        "parallelism.context_parallel_degree": "parallelism.context",
        "experimental.context_parallel_degree": "parallelism.context",
        "parallelism.expert_parallel_degree": "parallelism.expert",
        "parallelism.enable_sequence_parallel": "parallelism.sequence",
        "parallelism.enable_async_tensor_parallel": "parallelism.overlap_tensor",
        "experimental.enable_async_tensor_parallel": "parallelism.overlap_tensor",
        "compile.enable_async_tensor_parallel": "parallelism.overlap_tensor",
        "activation_checkpoint.mode": "parallelism.recompute",
        "metrics.log_freq": "interval.log",
        "float8.recipe_name": "precision.fp8_recipe",
        "quantize.linear.float8.recipe_name": "precision.fp8_recipe",
    }
    known = (
        frozenset(
            """
            profiler.* comm.* memory_estimation.* fault_tolerance.* mx.* quantize.* experimental.*
            debug.* liger_kernel.* validator.* tokenizer.* override.* model_spec.* loss.* deepep.*
            dataloader.* eval.* encoder.* dump_folder ft.*
            """.split()
        )
        | under(
            "job",
            "config_file dump_folder description use_for_integration_test print_args print_config "
            "custom_config_module save_config_file custom_args_module",
        )
        | under(
            "profiling",
            "enable_profiling save_traces_folder profile_freq profiler_active profiler_warmup "
            "enable_memory_snapshot save_memory_snapshot_folder run_profiler",
        )
        | under(
            "checkpoint",
            "enable enable_checkpoint enable_ft_dataloader_checkpoints folder interval "
            "interval_type initial_load_path initial_load_model_only initial_load_in_hf "
            "initial_load_in_hf_quantized last_save_model_only last_save_in_hf model_weights_only "
            "export_dtype async_mode keep_latest_k load_step exclude_from_loading load_only "
            "enable_first_step_checkpoint create_seed_checkpoint purge_exclude staging_timeout",
        )
        | under(
            "activation_checkpoint",
            "selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop "
            "memory_budget visualize_memory_budget_pareto preserve_rng_state determinism_check "
            "debug",
        )
        | under("compile", "components backend fullgraph model_backend_override loss mode")
        | under(
            "validation",
            "enabled enable dataset dataset_path local_batch_size batch_size seq_len freq steps",
        )
        | under(
            "float8",
            "enable_float8_linear enable_fsdp_float8_all_gather emulate filter_fqns "
            "precompute_float8_dynamic_scale_for_fsdp force_recompute_fp8_weight_in_bwd "
            "moe_fqns_prototype scaling_type_input scaling_type_weight scaling_type_grad_output",
        )
        | under(
            "metrics",
            "enable_tensorboard save_tb_folder disable_color_printing save_for_all_ranks "
            "enable_wandb rank_0_only enable_color_printing enable_structured_logging",
        )
        | under(
            "model",
            "name flavor converters print_after_conversion use_flex_attn attn_mask_type "
            "vocab_size max_seq_len use_mtp attn_type",
        )
        | under("optimizer", "early_step_in_backward foreach momentum dampening nesterov")
        | under("lr_scheduler", "decay_ratio decay_type")
        | under(
            "training",
            "data_parallel_replicate_degree dataset_path enable_fused_rmsnorm gc_freq gc_debug "
            "deterministic "
            "data_parallel_degree data_parallel_shard_degree data_parallel_type fsdp_wrap "
            "enable_loss_parallel activation_checkpoint mode fp8_linear enable_fp8_linear "
            "disable_cuda_graphs dataset_shuffle num_workers loss_fn dataset_split "
            "debug_moe_force_load_balance",
        )
        | under(
            "parallelism",
            "data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward "
            "enable_fsdp_symm_mem disable_loss_parallel enable_compiled_autograd spmd_backend "
            "pipeline_parallel_split_points module_fqns_per_model_part "
            "pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers "
            "pipeline_parallel_layers_per_stage pipeline_parallel_schedule "
            "pipeline_parallel_schedule_csv pipeline_parallel_microbatch_size "
            "context_parallel_rotate_method context_parallel_load_balancer "
            "context_parallel_ptrr_mask_key expert_tensor_parallel_degree pipeline_parallel_expert_"
            "parallel_comm_backend expert_parallel_comm_backend "
            "pipeline_parallel_expert_parallel_overlap enable_approx_mid_split_for_training",
        )
        | {"module_fqns_per_model_part[]", "parallelism.module_fqns_per_model_part[]"}
    )
    signs = frozenset(
        {"job.dump_folder", "job.config_file", "metrics.log_freq", "lr_scheduler.decay_ratio",
         "parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree",
         "parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree",
         "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option",
         "checkpoint.enable_checkpoint", "checkpoint.last_save_model_only", "training.seq_len",
         "training.data_parallel_shard_degree", "training.data_parallel_degree",
         "training.local_batch_size"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Sharding, the schedule's shape, FP8, and intervals that must be switched on."""
        self._ranks(draft)
        self._schedule(draft)
        self._precision(draft)
        for field, table, name in (
            ("checkpoint", "checkpoint", "interval"),
            ("evaluate", "validation", "freq"),
            ("evaluate", "validator", "freq"),
            ("evaluate_batches", "validation", "steps"),
        ):
            key = f"{table}.{name}"
            switches = ("enable", "enabled", "enable_checkpoint")
            if any(draft.true(f"{table}.{switch}") for switch in switches) and positive(
                draft.value(key)
            ):
                draft.say(f"interval.{field}", draft.value(key), key)

    def _ranks(self, draft: Draft) -> None:
        for table in ("parallelism", "training"):
            shard = f"{table}.data_parallel_shard_degree"
            replicate = f"{table}.data_parallel_replicate_degree"
            old = "training.data_parallel_degree"
            if table == "training" and not draft.has(shard) and draft.has(old):
                shard = old
            size, copies = number(draft, shard), number(draft, replicate) or 1
            if size is None:
                continue
            if size > 0 and copies > 0:  # -1: the ranks that are left over
                draft.say("parallelism.data", size * copies, shard)
            word = "none" if size == 1 else "hybrid" if copies > 1 else "full"
            draft.say("parallelism.fsdp", word, shard)

    def _schedule(self, draft: Draft) -> None:
        style = "lr_scheduler.decay_type"
        kinds = {"linear": "linear", "sqrt": "1-sqrt", "cosine": "cosine"}
        kind = kinds.get(str(draft.value(style)))
        ratio = number(draft, "lr_scheduler.decay_ratio")
        if ratio is None:
            if kind is not None:
                draft.say("schedule.kind", kind, style)
            return
        draft.say("schedule.kind", "wsd", "lr_scheduler.decay_ratio")
        if kind is not None:
            draft.say("schedule.decay_kind", kind, style)
        steps = number(draft, "training.steps")
        if steps and 0 <= ratio <= 1:
            draft.say("schedule.decay_steps", round(steps * ratio), "lr_scheduler.decay_ratio")

    def _precision(self, draft: Draft) -> None:
        converters = draft.value("model.converters")
        if converters is not None:
            found = converters if isinstance(converters, tuple) else str(converters).split(",")
            for name in (str(item).strip() for item in found):
                if ("float8" in name and "grouped" not in name) or name in ("mx", "mxfp8"):
                    draft.say("precision.compute", "fp8", "model.converters")
        for key in ("float8.enable_float8_linear", "training.enable_fp8_linear"):
            if draft.true(key):
                draft.say("precision.compute", "fp8", key)
        if "precision.compute" not in draft.statements or (
            draft.statements["precision.compute"].value != "fp8"
        ):
            draft.unsay("precision.fp8_recipe")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """JobConfig's values, and the model's of the flavour."""
        found = dict(_FILLS)
        if not spec.get("batch.global_size"):
            found["batch.accumulation"] = 1
        if spec.get("schedule.kind") == "wsd":
            found["schedule.decay_kind"] = "linear"
        model = str(draft.value("model.name", "llama3")), str(draft.value("model.flavor", ""))
        sizes = _FLAVORS.get(model)
        if sizes is not None:
            names = ("layers", "width", "heads", "kv_heads", "ff_width")
            found |= {f"architecture.{n}": v for n, v in zip(names, sizes, strict=True)}
            found |= _LLAMA3
        return found


_FILLS: Mapping[str, Any] = {
    "architecture.sequence_length": 2048,
    "batch.micro_size": 8,
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 8e-4,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.95,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.1,
    "optimizer.decay_embeddings": True,
    "optimizer.decay_norms": True,
    "optimizer.clip_norm": 1.0,
    "optimizer.fused": True,
    "schedule.kind": "linear",
    "schedule.steps": 10000,
    "schedule.warmup_steps": 200,
    "schedule.final_factor": 0.0,
    "precision.compute": "bf16",
    "precision.master": "fp32",
    "precision.gradient_reduce": "fp32",
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.context": 1,
    "parallelism.recompute": "selective",
    "parallelism.compile": False,
    "interval.log": 10,
}

FORMAT = Torchtitan()

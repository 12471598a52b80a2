"""transformers' TrainingArguments; axolotl, LLaMA-Factory and others hand them through."""

from collections.abc import Mapping
from typing import Any

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To

VERSION = "transformers 4.46"
"""The version whose defaults :data:`FILLS` are; they are the same in 5.24."""


def _positive(value: Any) -> Any:
    return value if isinstance(value, int | float) and value > 0 else None


def _steps(value: Any) -> Any:
    """Steps; a share of the run (0.1) is no number of steps."""
    return value if isinstance(value, int | float) and value >= 1 else None


def _true(value: Any) -> bool:
    """JSON's true, and the ``True`` of a command line."""
    return value is True or str(value).lower() == "true"


def _if(word: str) -> Any:
    return lambda value: word if _true(value) else None


def sharding(value: Any) -> str | None:
    """``full_shard auto_wrap`` or ``FULL_SHARD`` -> ``full``; ``grad-op``, ``hybrid``, ``none``."""
    text = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    text = text.lower()
    for name, word in (("hybrid", "hybrid"), ("full_shard", "full"), ("shard_grad_op", "grad-op"),
                       ("no_shard", "none")):  # fmt: skip
        if name in text:
            return word
    return None


KEYS: Mapping[str, str | To] = {
    "run_name": "name",
    "seed": "seed",
    "data_seed": "data.seed",
    "per_device_train_batch_size": "batch.micro_size",
    "per_gpu_train_batch_size": "batch.micro_size",
    "gradient_accumulation_steps": "batch.accumulation",
    "max_steps": To("schedule.steps", _positive),
    "num_train_epochs": To("schedule.epochs", _positive),
    "learning_rate": "optimizer.learning_rate",
    "lr_scheduler_type": To("schedule.kind", words.schedule),
    "lr_scheduler_kwargs.min_lr": "schedule.min_learning_rate",
    "lr_scheduler_kwargs.min_lr_rate": "schedule.final_factor",
    "lr_scheduler_kwargs.min_lr_ratio": "schedule.final_factor",
    "lr_scheduler_kwargs.num_decay_steps": "schedule.decay_steps",
    "lr_scheduler_kwargs.decay_type": To("schedule.decay_kind", words.schedule),
    "warmup_steps": To("schedule.warmup_steps", lambda v: v if v == 0 else _steps(v)),
    "warmup_ratio": To("schedule.warmup_fraction", _positive),
    "optim": To("optimizer.name", words.optimizer, keep=True),
    "weight_decay": "optimizer.weight_decay",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_epsilon": "optimizer.eps",
    "max_grad_norm": "optimizer.clip_norm",
    "label_smoothing_factor": "loss.label_smoothing",
    "bf16": To("precision.compute", _if("bf16")),
    "fp16": To("precision.compute", _if("fp16")),
    "tf32": "precision.tf32",
    "gradient_checkpointing": To("parallelism.recompute", lambda v: "full" if _true(v) else "none"),
    "torch_compile": "parallelism.compile",
    "fsdp": To("parallelism.fsdp", sharding),
    "logging_steps": To("interval.log", _steps),
    "save_steps": To("interval.checkpoint", _steps),
    "eval_steps": To("interval.evaluate", _steps),
    "dataloader_num_workers": "data.workers",
    "world_size": "parallelism.world_size",
    "block_size": "architecture.sequence_length",
    "max_seq_length": "architecture.sequence_length",
    # The examples without a Trainer, which accelerate starts.
    "max_train_steps": To("schedule.steps", _positive),
    "num_warmup_steps": "schedule.warmup_steps",
    "checkpointing_steps": To("interval.checkpoint", lambda v: v if isinstance(v, int) else None),
}

NO_TRAINER = frozenset({"max_train_steps", "num_warmup_steps", "checkpointing_steps",
                        "with_tracking"})  # fmt: skip
"""Arguments of examples that have a loop of their own: nothing of TrainingArguments applies."""

KNOWN = frozenset(
    """
    _n_gpu accelerator_config.* activation_checkpointing activation_checkpointing_kwargs.*
    accelerator_config adafactor adam_epsilon auto_find_batch_size average_tokens_across_devices
    batch_eval_metrics bf16_full_eval cached_setup_devices cache_dir data_seed
    dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context
    dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor ddp_backend
    ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph
    ddp_timeout debug deepspeed deepspeed.* disable_tqdm dispatch_batches do_eval do_predict
    do_train enable_jit_checkpoint eval_accumulation_steps eval_delay eval_do_concat_batches
    eval_on_start eval_strategy eval_use_gather_object evaluation_strategy fp16_backend
    fp16_full_eval fp16_opt_level fsdp_config.* fsdp_config fsdp_min_num_params
    fsdp_transformer_layer_cls_to_wrap full_determinism gradient_checkpointing_kwargs
    gradient_checkpointing_kwargs.* greater_is_better group_by_length half_precision_backend
    hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy hub_token
    ignore_data_skip include_for_metrics include_inputs_for_metrics include_num_input_tokens_seen
    include_tokens_per_second jit_mode_eval label_names length_column_name liger_kernel_config
    liger_kernel_config.* load_best_model_at_end local_rank log_level log_level_replica
    log_on_each_node logging_dir logging_first_step logging_nan_inf_filter logging_strategy
    lr_scheduler_kwargs lr_scheduler_kwargs.* metric_for_best_model mp_parameters
    neftune_noise_alpha no_cuda optim_args optim_target_modules output_dir overwrite_output_dir
    parallelism_config parallelism_config.* past_index per_device_eval_batch_size
    per_gpu_eval_batch_size prediction_loss_only project push_to_hub push_to_hub_model_id
    push_to_hub_organization push_to_hub_token ray_scope remove_unused_columns report_to
    restore_callback_states_from_checkpoint resume_from_checkpoint save_on_each_node
    save_only_model save_safetensors save_strategy save_total_limit sharded_ddp
    skip_memory_metrics sortish_sampler split_batches tp_size torch_compile_backend
    torch_compile_mode torch_empty_cache_steps torchdynamo tpu_metrics_debug tpu_num_cores
    train_sampling_strategy trackio_space_id trackio_bucket_id trackio_static_space_id use_cache
    use_cpu use_ipex use_legacy_prediction_loop use_liger_kernel use_mps_device
    predict_with_generate generation_max_length generation_num_beams generation_config xpu_backend
    model_name_or_path dataset_name dataset_config_name train_file validation_file block_size
    preprocessing_num_workers config_overrides config_name tokenizer_name trust_remote_code
    validation_split_percentage max_train_samples max_eval_samples streaming low_cpu_mem_usage
    assistant_only_loss attn_impl beta bnb_4bit_quant_type chat_template completion_only_loss
    data_path dataset_mixer dataset_mixer.* dataset_num_proc dataset_splits dataset_test_split
    dataset_text_field dataset_train_split eval_packing lazy_preprocess load_in_4bit load_in_8bit
    lora_alpha lora_bias lora_dropout lora_enable lora_modules_to_save lora_r lora_target_modules
    lora_task_type loss_type max_completion_length max_prompt_length model_init_kwargs.*
    model_revision num_generations packing packing_strategy padding_free model_max_length
    task_name use_bnb_nested_quant use_lora use_peft use_vllm vision_tower wandb_entity
    wandb_project system_prompt vllm_device vllm_gpu_memory_utilization vllm_max_model_len
    reward_funcs reward_weights log_completions benchmarks callbacks with_tracking eos_token
    dataset_mixture.*
    attn_implementation torch_dtype use_fast_tokenizer overwrite_cache keep_linebreaks
    """.split()
)
"""Arguments without a place in the normal form, of all versions since 4.0."""

SIGNS = frozenset(
    """
    per_device_train_batch_size lr_scheduler_type num_train_epochs adam_epsilon
    logging_nan_inf_filter fp16_opt_level save_total_limit dataloader_drop_last
    per_device_eval_batch_size warmup_ratio
    """.split()
)

FILLS: Mapping[str, Any] = {
    "seed": 42,
    "batch.micro_size": 8,
    "batch.accumulation": 1,
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 5e-5,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.0,
    "optimizer.decay_embeddings": True,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "optimizer.clip_norm": 1.0,
    "schedule.kind": "linear",
    "precision.compute": "fp32",
    "parallelism.recompute": "none",
    "interval.log": 500,
    "interval.checkpoint": 500,
}


def interpret(draft: Draft) -> None:
    """What several of these arguments mean together; for any format that takes them up."""
    if "schedule.steps" in draft.statements:
        draft.unsay("schedule.epochs")  # max_steps overrides it
    warmup = draft.number("warmup_steps")
    if warmup is not None and 0 < warmup < 1:  # transformers 5: a share of the run
        draft.say("schedule.warmup_fraction", warmup, "warmup_steps")
    elif warmup:
        draft.unsay("schedule.warmup_fraction")  # it overrides the ratio
    elif draft.number("warmup_ratio"):
        draft.unsay("schedule.warmup_steps")
    strategies = {
        "save_strategy": "checkpoint",
        "eval_strategy": "evaluate",
        "evaluation_strategy": "evaluate",
        "logging_strategy": "log",
    }
    for strategy, field in strategies.items():
        if str(draft.value(strategy, "steps")).rpartition(".")[2].lower() != "steps":
            draft.unsay(f"interval.{field}")
    if draft.true("adafactor"):
        draft.say("optimizer.name", "adafactor", "adafactor")
    optim = str(draft.value("optim", ""))
    if optim.endswith("_fused"):
        draft.say("optimizer.fused", True, "optim")


def filled(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What TrainingArguments fill in where nobody states it."""
    found = dict(FILLS)
    if "schedule.steps" not in spec:
        found["schedule.epochs"] = 3.0
    if "schedule.warmup_fraction" not in spec:
        found["schedule.warmup_steps"] = 0
    if spec.get("schedule.kind", "linear") in ("linear", "cosine"):
        if not {"schedule.min_learning_rate", "schedule.final_factor"} & spec.keys():
            found["schedule.final_factor"] = 0.0
    if spec.get("precision.compute") == "fp16":
        found["precision.initial_loss_scale"] = 65536.0
    return found

"""LLaMA-Factory: its YAML or JSON: transformers' TrainingArguments and its own arguments."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers import _training_arguments as arguments
from surefoot.readers.configs.trainers._shared import Signed, flag, share

_OWN = frozenset(
    """
    stage finetuning_type template dataset eval_dataset dataset_dir media_dir cutoff_len
    train_on_prompt mask_history streaming buffer_size mix_strategy interleave_probs
    overwrite_cache preprocessing_batch_size preprocessing_num_workers max_samples eval_num_beams
    ignore_pad_token_for_loss val_size eval_on_each_dataset packing neat_packing tool_format
    default_system enable_thinking preserve_thinking tokenized_path data_shared_file_system
    sft_packing reserved_label_len max_source_length max_target_length split efficient_eos
    task task_dir batch_size lang n_shot save_dir download_mode
    freeze_trainable_layers freeze_trainable_modules freeze_extra_modules num_layer_trainable
    name_module_trainable additional_target lora_alpha lora_dropout lora_rank lora_target
    lora_bf16_mode loraplus_lr_ratio loraplus_lr_embedding use_rslora use_dora pissa_init
    pissa_iter pissa_convert create_new_adapter module_dropout oft_rank oft_block_size oft_target
    pref_beta pref_ftx pref_bco_weight pref_loss dpo_beta dpo_ftx dpo_loss orpo_beta
    dpo_label_smoothing kto_beta kto_ftx kto_chosen_weight kto_rejected_weight simpo_gamma
    ppo_buffer_size ppo_epochs ppo_logger ppo_score_norm ppo_target ppo_whiten_rewards ref_model
    ref_model_adapters ref_model_quantization_bit reward_model reward_model_adapters
    reward_model_quantization_bit reward_model_type ld_alpha use_galore galore_target galore_rank
    galore_update_interval galore_scale galore_proj_type galore_layerwise use_apollo apollo_target
    apollo_rank apollo_update_interval apollo_scale apollo_proj apollo_proj_type apollo_scale_type
    apollo_layerwise apollo_scale_front use_badam badam_mode badam_start_block badam_switch_mode
    badam_switch_interval badam_update_ratio badam_mask_mode badam_verbose use_swanlab
    swanlab_project swanlab_workspace swanlab_run_name swanlab_mode swanlab_api_key swanlab_logdir
    swanlab_lark_webhook_url swanlab_lark_secret pure_bf16 use_llama_pro use_adam_mini use_mca
    use_hyper_parallel hyper_parallel_args use_muon use_dft_loss use_asft_loss asft_alpha
    use_eaft_loss eaft_alpha freeze_vision_tower freeze_multi_modal_projector
    freeze_language_model train_mm_proj_only compute_accuracy disable_shuffling
    early_stopping_steps plot_loss include_effective_tokens_per_second do_sample temperature top_p
    top_k num_beams max_length max_new_tokens repetition_penalty length_penalty
    skip_special_tokens model_name_or_path adapter_name_or_path adapter_folder cache_dir
    use_fast_tokenizer resize_vocab split_special_tokens add_tokens add_special_tokens
    new_special_tokens new_special_tokens_config init_special_tokens model_revision
    low_cpu_mem_usage rope_scaling flash_attn shift_attn mixture_of_depths use_unsloth
    use_unsloth_gc enable_liger_kernel moe_aux_loss_coef disable_gradient_checkpointing
    use_reentrant_gc upcast_layernorm upcast_lmhead_output train_from_scratch infer_backend
    offload_folder use_cache use_kv_cache use_v1_kernels infer_dtype hf_hub_token ms_hub_token
    om_hub_token print_param_status trust_remote_code quantization_method quantization_bit
    quantization_type double_quantization quantization_device_map image_max_pixels
    image_min_pixels image_resolution image_do_pan_and_scan crop_to_patches video_max_pixels
    video_min_pixels video_resolution video_fps video_maxlen use_audio_in_video
    audio_sampling_rate visual_inputs export_dir export_size export_device
    export_quantization_bit export_quantization_dataset export_quantization_nsamples
    export_quantization_maxlen export_legacy_format export_hub_model_id vllm_maxlen vllm_gpu_util
    vllm_enforce_eager vllm_max_lora_rank vllm_config vllm_config.* sglang_maxlen
    sglang_mem_fraction sglang_tp_size sglang_config sglang_config.* sglang_lora_backend use_kt
    kt_optimize_rule kt_weight_path kt_expert_checkpoint_path kt_use_lora_experts
    kt_lora_expert_num kt_lora_expert_intermediate_size cpu_infer chunk_size mode compute_dtype
    device_map model_max_length block_diag_attn ray_run_name ray_storage_path
    ray_storage_filesystem ray_num_workers ray_init_kwargs ray_init_kwargs.* resources_per_worker
    resources_per_worker.* placement_strategy master_addr master_port enable_torch_profiler
    profiler_output_dir profiler_wait_steps profiler_warmup_steps profiler_active_steps
    profiler_repeat profiler_record_shapes profiler_profile_memory profiler_with_stack
    profile_modules fp8 fp8_backend fp8_enable_fsdp_float8_all_gather include_tokens_per_second
    gradient_checkpointing sequence_parallel_size sequence_parallel_mode
    model model_class train_dataset sample_backend batching_strategy dist_config.* kernel_config.*
    quant_config.* peft_config.* init_config.* kt_config.* bias_activation_fusion
    apply_rope_fusion moe_grouped_gemm moe_token_dispatcher_type
    """.split()
)


class LlamaFactory(Signed):
    """``llamafactory-cli train config.yaml``."""

    name = "llama-factory"
    title = "LLaMA-Factory"
    version = "LLaMA-Factory 0.9"
    kinds = frozenset({"yaml", "json", "arguments"})
    autos = frozenset({"auto"})
    nested = ("deepspeed",)
    keys: ClassVar[Mapping[str, str | To]] = {
        **arguments.KEYS,
        "cutoff_len": "architecture.sequence_length",
        "val_size": To("data.validation_fraction", lambda v: v if v == 0 else share(v)),
        "moe_aux_loss_coef": "loss.balance_weight",
        "fp8": To("precision.compute", flag("fp8")),
        # its second interface, and Megatron core's below use_mca
        "micro_batch_size": "batch.micro_size",
        "global_batch_size": "batch.global_size",
        "tensor_model_parallel_size": "parallelism.tensor",
        "pipeline_model_parallel_size": "parallelism.pipeline",
        "virtual_pipeline_model_parallel_size": "parallelism.virtual_pipeline",
        "expert_model_parallel_size": "parallelism.expert",
        "context_parallel_size": "parallelism.context",
        "sequence_parallel": "parallelism.sequence",
        "recompute_granularity": "parallelism.recompute",
        "use_distributed_optimizer": "parallelism.distributed_optimizer",
        "overlap_grad_reduce": "parallelism.overlap_grad_reduce",
        "overlap_param_gather": "parallelism.overlap_param_gather",
    }
    known = arguments.KNOWN | _OWN
    signs = frozenset(
        {"finetuning_type", "cutoff_len", "dataset_dir", "preprocessing_num_workers", "plot_loss",
         "val_size", "neat_packing", "lora_target", "lora_rank", "pure_bf16", "train_from_scratch",
         "dist_config.name", "kernel_config.name", "adapter_name_or_path", "export_dir"}
    )  # fmt: skip

    def spell(self, key: str) -> str:
        """Flags may be written with hyphens."""
        return super().spell(key).replace("-", "_")

    def interpret(self, draft: Draft) -> None:
        """TrainingArguments' relations, data sets in one text, switches."""
        arguments.interpret(draft)
        names = draft.value("dataset")
        if names is not None:
            found = names if isinstance(names, tuple) else str(names).split(",")
            draft.say("data.sources", tuple(str(name).strip() for name in found), "dataset")
        weights = draft.value("interleave_probs")
        if weights is not None:
            found = weights if isinstance(weights, tuple) else str(weights).split(",")
            draft.say("data.weights", tuple(found), "interleave_probs")
        if draft.true("pure_bf16"):
            draft.say("precision.compute", "bf16", "pure_bf16")
            draft.say("precision.master", "bf16", "pure_bf16")
        if draft.true("use_muon"):
            draft.say("optimizer.name", "muon", "use_muon")
        if draft.has("disable_gradient_checkpointing"):
            off = draft.true("disable_gradient_checkpointing")
            key = "disable_gradient_checkpointing"
            draft.say("parallelism.recompute", "none" if off else "full", key)
        if draft.has("disable_shuffling"):
            draft.say("data.shuffle", not draft.true("disable_shuffling"), "disable_shuffling")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """Its own values before those of TrainingArguments."""
        return {
            **arguments.filled(spec),
            "architecture.sequence_length": 2048,
            "parallelism.recompute": "full",
        }

    def assumed(self, draft: Draft) -> str:
        """With the library whose arguments these are."""
        return f"{self.version} with {arguments.VERSION}"


FORMAT = LlamaFactory()

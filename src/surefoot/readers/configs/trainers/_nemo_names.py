"""Keys of NeMo 1's language models without a place in the normal form, and Megatron core's."""

from surefoot.readers.configs.trainers._megatron_names import KNOWN as _MEGATRON
from surefoot.readers.configs.trainers._shared import under

CORE = """
    account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split activation_func
    activation_func_clamp_value activation_func_fp8_input_store add_bias_linear add_qkv_bias
    apply_query_key_layer_scaling apply_residual_connection_post_layernorm apply_rope_fusion
    async_tensor_model_parallel_allreduce attention_backend attention_softmax_in_fp32 autocast
    autocast_dtype barrier_with_L1_time batch_invariant_mode batch_p2p_comm batch_p2p_sync bf16
    bias_activation_fusion bias_dropout_add_fusion bias_dropout_fusion calculate_per_token_loss
    clone_scatter_output_in_embedding config_logger_dir cp_comm_type cpu_offloading
    cpu_offloading_activations cpu_offloading_num_layers cpu_offloading_weights
    cross_entropy_fusion_impl cross_entropy_loss_fusion cuda_graph_impl cuda_graph_scope
    cuda_graph_retain_backward_graph cuda_graph_use_single_mempool cuda_graph_warmup_steps
    data_step_fn deallocate_pipeline_outputs deepstack_visual_indexes
    defer_embedding_wgrad_compute delay_wgrad_compute deterministic_mode
    disable_bf16_reduced_precision_matmul disable_parameter_transpose_cache
    distribute_saved_activations embedding_init_method embedding_init_method_std enable_autocast
    enable_cuda_graph ep_overlap_early_attn_memory_release expert_model_parallel_size
    expert_tensor_parallel_size experimental_attention_variant external_cuda_graph
    fallback_to_eager_attn fine_grained_activation_offloading finalize_model_grads_func
    first_last_layers_bf16 flash_decode forward_step_fn fp16 fp16_lm_cross_entropy
    fp32_residual_connection fp4 fp4_param fp4_recipe fp8 fp8_amax_compute_algo
    fp8_amax_history_len fp8_dot_product_attention fp8_e4m3 fp8_hybrid fp8_interval fp8_margin
    fp8_multi_head_attention fp8_output_proj fp8_param fp8_params fp8_quantizer_factory
    fp8_recipe fp8_wgrad fused_single_qkv_rope gated_linear_unit generation_config
    glu_linear_offset grad_scale_func grad_sync_func gradient_accumulation_fusion
    hetereogenous_dist_checkpoint heterogeneous_block_specs hf_config_path hf_model_id
    hierarchical_context_parallel_sizes hybrid_attention_ratio hybrid_mlp_ratio
    hybrid_override_pattern inference_rng_tracker inference_sampling_seed init_method
    init_model_with_meta_device is_hybrid_model kitchen_attention_backend kv_channels
    layernorm_zero_centered_gamma linear_attention_freq linear_conv_kernel_dim
    log_max_attention_logit make_vocab_size_divisible_by mamba_head_dim mamba_num_groups
    mamba_num_heads mamba_state_dim masked_softmax_fusion max_seqlen_per_dp_cp_rank
    memory_efficient_layer_norm microbatch_group_size_per_vp_stage min_offloaded_tensor_size
    mlp_chunks_for_prefill mlp_chunks_for_training mlp_bias moe_apply_probs_on_input
    moe_aux_loss_coeff moe_deepep_num_sms moe_enable_deepep moe_expert_capacity_factor
    moe_extended_tp moe_ffn_hidden_size moe_flex_dispatcher_backend moe_grouped_gemm
    moe_hybridep_num_sms moe_input_jitter_eps moe_layer_freq moe_layer_recompute moe_latent_size
    moe_pad_expert_input_to_capacity moe_pad_experts_for_cuda_graph_inference
    moe_per_layer_logging moe_permute_fusion moe_router_bias_update_rate moe_router_dtype
    moe_router_enable_expert_bias moe_router_force_load_balancing moe_router_fusion
    moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups
    moe_router_padding_for_fp8 moe_router_padding_for_quantization moe_router_pre_softmax
    moe_router_score_function moe_router_topk_limited_devices moe_router_topk_scaling_factor
    moe_shared_expert_gate moe_shared_expert_intermediate_size moe_shared_expert_overlap
    moe_token_dispatcher_type moe_token_drop_policy moe_token_dropping
    moe_use_legacy_grouped_gemm moe_z_loss_coeff mrope_section mtp_enabled
    mtp_loss_scaling_factor mtp_num_layers mtp_standalone multi_latent_attention no_rope_freq
    no_sync_func nccl_all_reduce_for_prefill num_layers_at_end_in_bf16
    num_layers_at_start_in_bf16 num_layers_in_first_pipeline_stage
    num_layers_in_last_pipeline_stage num_microbatches_with_partial_activation_checkpoints
    offload_modules old_context_len output_layer_init_method overlap_moe_expert_parallel_comm
    overlap_p2p_comm overlap_p2p_comm_warmup_flush parallel_output param_sync_func params_dtype
    perform_initialization persist_layer_norm pipeline_dtype
    pipeline_model_parallel_comm_backend pipeline_model_parallel_layout
    pipeline_model_parallel_split_rank post_process pre_process q_lora_rank kv_lora_rank
    qk_head_dim qk_pos_emb_head_dim qk_l2_norm qk_clip qk_clip_alpha qk_clip_threshold
    v_head_dim quant_recipe recompute_method recompute_modules restore_modelopt_state
    rope_scaling rope_scaling_factor rope_type rotary_interleaved rotary_percent
    rotary_scaling_factor scale_factor scatter_embedding_sequence_parallel
    seq_len_interpolation_factor sequence_parallel should_pad_vocab softmax_scale softmax_type
    symmetric_ar_type te_rng_tracker test_mode timers tp_comm_atomic_ag tp_comm_atomic_rs
    tp_comm_bootstrap_backend tp_comm_bulk_dgrad tp_comm_bulk_wgrad tp_comm_overlap
    tp_comm_overlap_ag tp_comm_overlap_cfg tp_comm_overlap_disable_fc1
    tp_comm_overlap_disable_qkv tp_comm_overlap_rs tp_comm_overlap_rs_dgrad tp_comm_split_ag
    tp_comm_split_rs tp_only_amax_red transformer_impl transformer_layer_spec
    use_arbitrary_attention_mask use_cpu_initialization use_fused_weighted_squared_relu
    use_inference_optimized_layers use_kitchen use_kitchen_attention use_mamba_mem_eff_path
    use_ring_exchange_p2p use_te_activation_func use_te_rng_tracker
    use_transformer_engine_op_fuser use_transformer_engine_full_layer_spec variable_seq_lengths
    virtual_pipeline_model_parallel_size vocab_size vocab_size_pad wgrad_deferral_limit
    window_attn_skip_freq yarn_beta_fast yarn_beta_slow yarn_mscale yarn_mscale_all_dim
    yarn_correction_range_round_to_int yarn_original_max_position_embeddings
    yarn_rotary_scaling_factor extra_kwargs beta_fast beta_slow mscale mscale_all_dim
    original_max_position_embeddings gradient_dtype attention_output_gate
    apply_wd_to_qk_layernorm mup_embedding_mult
"""
"""Fields of Megatron core's TransformerConfig and of the providers around it."""

_MODEL = """
    activations_checkpoint_layers_per_pipeline activations_checkpoint_method add_binary_head
    answer_only_loss apex_transformer_log_level apply_embedding_scaling async_grad_allreduce
    attention_dropout_p attention_type batch_p2p_comm bert_binary_head custom custom_eos data.*
    data.data_prefix data.data_prefix.* data_parallel_random_init delay_grad_reduce
    delay_param_gather dist_ckpt_format dist_ckpt_load_on_device dist_ckpt_parallel_dist_opt
    dist_ckpt_parallel_load dist_ckpt_parallel_save dist_ckpt_torch_dist_multiproc
    do_layer_norm_weight_decay embedding_dropout enable_megatron_timers enforce_divisible_batch
    expert_model_parallel_size ffn_dropout final_logit_softcapping force_single_data_replica
    fsdp_cpu_offload fsdp_grad_reduce_dtype fsdp_limit_all_gathers fsdp_sharded_checkpoint
    fsdp_sharding_strategy fsdp_use_orig_params gc_interval get_attention_mask_from_fusion
    global_batch_size.* grad_allreduce_chunk_size_mb grad_div_ar_fusion
    gradient_accumulation_fusion gradient_as_bucket_view gradient_clip_algorithm headscale
    hidden_size hidden_size_per_head hyena.* inference.* language_model_path layer_number_offset
    max_sequence_length mcore_bert mcore_gpt mcore_t5 megatron_legacy megatron_lm_compatible
    megatron_timer_kwargs.* memory_efficient_layer_norm memory_profile.* model_name model_parent
    model_type moe_config.* moe_dropout moe_frequency name nccl_communicator_config_path
    normalize_attention_scores nsys_profile.*
    num_micro_batches_with_partial_activation_checkpoints onnx_safe openai_gelu
    optim.adam_w_mode optim.amsgrad optim.betas optim.bucket_cap_mb optim.capturable
    optim.contiguous_grad_buffer optim.contiguous_param_buffer optim.lr_mult optim.momentum
    optim.overlap_grad_sync optim.param_sync_dtype optim.rho optim.sched
    optim.sched.constant_ratio optim.sched.constant_steps optim.sched.cycle
    optim.sched.decay_steps optim.sched.hold_steps optim.sched.last_epoch optim.sched.max_steps
    optim.sched.monitor optim.sched.power optim.sched.reduce_on_plateau optim.sched.warmup_ratio
    optim.store_param_remainders optim.store_params optimizer_cpu_offload overlap_p2p_comm
    parallelization_specs.* peft.* position_embedding_type precision pretrained_checkpoint.*
    rampup_batch_size recompute_granularity recompute_num_layers reduce_amax restore_from_path
    resume_from_checkpoint rope_scaling.* rotary_percentage save_nemo_on_validation_end
    scale_positional_embedding seed seq_length share_decoder_tokens_head_embeddings
    share_token_embeddings sharp sync_batch_comm target target_module tokenizer.*
    torch_distributed_checkpoint transformer_block_type transformer_engine
    ub_tp_comm_overlap_cfg ub_tp_comm_overlap_cfg.* untie_embeddings_and_output_weights use_emha
    use_flash_attention use_gloo_process_groups use_sharp use_te_rng_tracker
    use_tp_pp_dp_mapping validation_param_sync_overlap warmup_cuda_graph_after_validation
"""

_TRAINER = """
    accelerator logger enable_checkpointing replace_sampler_ddp use_distributed_sampler
    max_epochs max_time limit_test_batches limit_train_batches limit_val_batches
    accumulate_grad_batches benchmark enable_model_summary plugins num_sanity_val_steps
    check_val_every_n_epoch strategy overfit_batches resume_from_checkpoint deterministic
    fast_dev_run val_check_interval gradient_clip_algorithm profiler callbacks sync_batchnorm
    detect_anomaly enable_progress_bar amp_backend amp_level default_root_dir
    reload_dataloaders_every_n_epochs
"""

KNOWN = (
    under("model", _MODEL)
    | under("model", CORE)
    | under("model", " ".join(key for key in _MEGATRON if "." not in key))
    | under("trainer", _TRAINER)
    | frozenset(
        """
        exp_manager.* restore_from_path defaults defaults[] defaults.* hydra.* cluster_type
        config-path config-name name run.* do_training do_testing autoresume_if_interrupted
        inference.* cluster.*
        """.split()
    )
)

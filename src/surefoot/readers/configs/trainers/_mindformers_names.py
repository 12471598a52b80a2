"""Keys of MindFormers without a place in the normal form, of versions 0.8 to 2.1."""

MODEL = """
    activation_func_clamp_value add_bias_linear add_qkv_bias apply_dsa_kernel_fusion
    apply_query_key_layer_scaling apply_residual_connection_post_layernorm apply_rope_fusion
    arch.* architectures attention_bias attention_dropout attention_dropout_rate
    attention_probs_dropout_prob attention_softmax_in_fp32 attention_type auto_map.*
    auto_map.AutoTokenizer batch_size beta_fast beta_slow bias_dropout_fusion bias_swiglu_fusion
    block_size bos_token_id checkpoint_name_or_path compress_ratios compress_rope_theta
    compute_dtype compute_in_2d csa_dense_mode csa_window_size do_sample dropout_prob
    dsa_indexer_loss_coeff dsa_indexer_use_sparse_loss emb_dropout_prob embedding_dropout_prob
    embedding_init_type embedding_size enable_emb_opt enable_hyper_connections enable_slice_dp
    eod_reset eod_token_id eos_token_id expand_ratio expansion_ratio
    experimental_attention_variant extend_method ffn_dim_multiplier ffn_hidden_size
    fine_grain_interleave first_k_dense_replace fp32_residual_connection gated_linear_unit
    gmm_based head_dim hidden_act hidden_dropout hidden_dropout_prob hidden_dropout_rate
    hidden_size ignore_token_id index_head_dim index_n_heads index_topk initializer_range
    input_sliced_sig intermediate_size is_dynamic is_npu_acceleration is_sample_acceleration
    kv_channels kv_lora_rank layernorm_compute_dtype layernorm_compute_type layernorm_epsilon
    llm_backend max_decode_length max_length max_new_tokens max_position_embeddings
    mhc_init_gating_factor mhc_sinkhorn_iterations mla_qkv_concat mlp_concat mlp_has_bias
    model_type moe_aux_loss_coeff moe_config.* moe_grouped_gemm moe_intermediate_size
    moe_router_bias_update_rate moe_router_dtype moe_router_enable_expert_bias
    moe_router_force_expert_balance moe_router_fusion moe_router_group_topk
    moe_router_load_balancing_type moe_router_pre_softmax moe_router_score_function
    moe_shared_expert_intermediate_size moe_token_dispatcher_type moe_token_drop_policy
    moe_z_loss_coeff mscale mscale_all_dim mtp_depth mtp_loss_factor mtp_loss_scaling_factor
    multi_latent_attention multi_query_attention multi_query_group_num multiple_of n_group
    n_kv_heads n_routed_experts n_shared_experts no_wqkv_concat norm_topk_prob
    npu_nums_per_device num_attention_heads num_blocks num_experts num_experts_per_tok
    num_hash_layers num_heads num_hidden_layers num_key_value_heads num_layers
    num_nextn_predict_layers num_residual_streams o_groups o_lora_rank offset offset[]
    pad_token_id padded_vocab_size parallel_decoding_params.* parallel_optimizer param_init_type
    params_dtype pet_config.* phase pipeline_stage_alignment position_embedding_type
    post_layer_norm pp_interleave_num pre_seq_len prefix_projection pretrain_seqlen q_lora_rank
    qk_layernorm qk_nope_head_dim qk_rope_head_dim qkv_concat qkv_has_bias quantization_bit
    repetition_penalty rl_config.* rms_norm_eps rmsnorm rmsnorm_compute_2d rope_ratio
    rope_scaling rope_scaling.* rope_theta rotary_dtype rotary_scaling_factor
    routed_scaling_factor router_aux_loss_coef router_dense_type sandwich_norm scaling_factor
    scaling_factor.* scoring_func seq_length softmax_compute_dtype softmax_compute_type theta
    tie_word_embeddings top_k top_p topk_group type untie_embeddings_and_output_weights
    use_attn_mask_compression use_cache use_contiguous_weight_layout_attention
    use_eod_attn_mask_compression use_flash_attention use_fused_mla use_fused_ops_topkrouter
    use_moe use_pad_tokens use_past use_past_shard use_ring_attention use_rope_slice
    use_select_softmax v_head_dim vocab_size
"""
"""Below ``model`` or ``model.model_config``."""

OTHERS = """
    adapter_id arch.type auto_map.* auto_trans_ckpt auto_tune autotune_per_step base_config
    base_learning_rate blip blip.* calculate_per_token_loss callbacks callbacks.*
    callbacks[].async_save callbacks[].balance_via_topk_bias callbacks[].checkpoint_format
    callbacks[].expert_num callbacks[].integrated_save callbacks[].keep_checkpoint_max
    callbacks[].micro_batch_num callbacks[].per_print_times callbacks[].prefix
    callbacks[].remove_redundancy callbacks[].save_checkpoint_steps
    callbacks[].topk_bias_update_rate callbacks[].type check_for_nan_in_loss_and_grad
    checkpoint.async_save checkpoint.enable_save checkpoint.load_balanced checkpoint.load_path
    checkpoint.load_worker_number checkpoint.no_load_optim checkpoint.no_save_optim
    checkpoint.prefix checkpoint.remove_redundancy checkpoint.save_interleaved_steps
    checkpoint.save_max checkpoint.save_path context context.* data_simplification
    data_skip_steps do_eval eval_callbacks eval_callbacks.* eval_dataset eval_dataset.*
    eval_dataset_task eval_dataset_task.* eval_dataset_task.type eval_epoch_interval
    eval_step_interval exclude_layers filepath_prefix generation_config generation_config.* glm
    glm.* glm2 glm2.* gpt gpt.* grouped_lr_schedule grouped_lr_schedule.* ignore_data_skip
    infer_infer infer_seq_length init_start_profile input_data internlm internlm.* layer_decay
    layer_scale llama llama.* load_async load_checkpoint load_ckpt_format load_path lr_decay
    lr_scale lr_scale_factor lr_schedule lr_schedule.base_lr lr_schedule.decay_epochs
    lr_schedule.decay_ratio lr_schedule.decay_start_ratio lr_schedule.decay_start_steps
    lr_schedule.decay_steps lr_schedule.eta_min lr_schedule.final_steps lr_schedule.keep_steps
    lr_schedule.learning_rate lr_schedule.lr_end lr_schedule.lr_end1 lr_schedule.lr_end2
    lr_schedule.num_cycles lr_schedule.power lr_schedule.start_factor lr_schedule.t_max
    lr_schedule.total_steps lr_schedule.type lr_schedule.warmup_epochs
    lr_schedule.warmup_lr_init lr_schedule.warmup_ratio lr_schedule.warmup_steps lr_scheduler
    lr_scheduler.learning_rate lr_scheduler.lr_end lr_scheduler.total_steps lr_scheduler.type
    lr_scheduler.warmup_lr_init lr_scheduler.warmup_ratio lr_scheduler.warmup_steps metric
    metric.* micro_batch_interleave_num model.arch model.arch.* model.arch.type
    model.architectures moe_config.* moe_config.aux_loss_factor moe_config.capacity_factor
    moe_config.expert_num moe_config.num_experts_chosen monitor_config monitor_config.* mstx
    npu_asd_enable only_save_strategy optimizer optimizer.adamw_betas optimizer.adamw_eps
    optimizer.betas optimizer.clip_threshold optimizer.comm_strategy optimizer.compression
    optimizer.decay_rate optimizer.eps optimizer.learning_rate optimizer.matched_adamw_rms
    optimizer.momentum optimizer.nesterov optimizer.ns_coefficients optimizer.ns_coefficients[]
    optimizer.qk_clip_enabled optimizer.qk_clip_threshold optimizer.scale_parameter
    optimizer.swap optimizer.type optimizer.use_fused optimizer.use_fused_adamw
    optimizer.warmup_init optimizer.weight_decay optimizer.weight_decay_filter output_dir
    parallel.auto_parallel_search_mode parallel.comm_fusion.* parallel.dataset_strategy
    parallel.dataset_strategy[] parallel.enable_alltoall parallel.enable_parallel_optimizer
    parallel.full_batch parallel.gradients_mean parallel.loss_repeated_mean
    parallel.parallel_mode parallel.parallel_optimizer_config.*
    parallel.parallel_optimizer_config.gradient_accumulation_shard
    parallel.parallel_optimizer_config.optimizer_weight_shard_size
    parallel.parallel_optimizer_config.parallel_optimizer_threshold
    parallel.pipeline_config.pipeline_interleave parallel.pipeline_config.pipeline_scheduler
    parallel.search_mode parallel.strategy_ckpt_config.*
    parallel.strategy_ckpt_config.only_trainable_params parallel.strategy_ckpt_config.save_file
    parallel.strategy_ckpt_load_file parallel.strategy_ckpt_save_file
    parallel_config.context_parallel parallel_config.context_parallel_algo
    parallel_config.data_parallel parallel_config.expert_parallel
    parallel_config.gradient_aggregation_group parallel_config.mem_coeff
    parallel_config.micro_batch_num parallel_config.model_parallel
    parallel_config.optimizer_shard parallel_config.pipeline_stage
    parallel_config.pp_interleave_num parallel_config.recompute parallel_config.seq_split_num
    parallel_config.ulysses_degree_in_cp parallel_config.use_seq_parallel
    parallel_config.vocab_emb_dp parallelism.context_parallel parallelism.context_parallel_async
    parallelism.context_parallel_mask_type parallelism.context_parallel_method
    parallelism.cpu_offload parallelism.data_parallel_shard
    parallelism.data_parallel_shard_strategy parallelism.disable_gradient_division
    parallelism.expert_parallel parallelism.moe_token_dispatcher_type
    parallelism.pipeline_parallel parallelism.pipeline_parallel_interleave_num
    parallelism.pipeline_parallel_layers_per_stage parallelism.pipeline_parallel_overlap_b_f
    parallelism.pipeline_parallel_overlap_p2p parallelism.pipeline_parallel_schedule
    parallelism.reshard_after_forward_policy parallelism.sequence_parallel
    parallelism.tensor_parallel parallelism.ulysses_degree_in_cp pretrained_model_dir
    print_separate_loss processor processor.* profile profile_communication profile_level
    profile_memory profile_output profile_pipeline profile_rank_ids profile_start_step
    profile_stop_step profiler_level prompt qwen qwen.* recompute.full_recompute_layer
    recompute.mode recompute_config.mp_comm_recompute
    recompute_config.parallel_optimizer_comm_recompute recompute_config.recompute
    recompute_config.recompute[] recompute_config.recompute_slice_activation
    recompute_config.select_comm_recompute recompute_config.select_comm_recompute_exclude
    recompute_config.select_recompute recompute_config.select_recompute_exclude remote_save_url
    remove_redundancy resume_training run_mode runner_config.batch_size runner_config.epochs
    runner_config.gradient_accumulation_steps runner_config.has_trained_epoches
    runner_config.image_size runner_config.initial_epoch runner_config.num_classes
    runner_config.sink_mode runner_config.sink_per_epoch runner_config.sink_size
    runner_config.stop_step runner_wrapper.calculate_per_token_loss
    runner_wrapper.global_norm_spike_threshold runner_wrapper.local_norm
    runner_wrapper.max_grad_norm runner_wrapper.scale_sense
    runner_wrapper.scale_sense.loss_scale_value runner_wrapper.scale_sense.scale_factor
    runner_wrapper.scale_sense.scale_window runner_wrapper.scale_sense.type runner_wrapper.type
    runner_wrapper.use_clip_grad safetensors_path save_checkpoint_path save_file seed
    src_strategy_path_or_dir stand_alone.* start_lr swap_config.* train_dataset train_dataset.*
    train_dataset_task train_dataset_task.* train_precision_sync trainer.* trainer.model_name
    trainer.type training.deterministic training.global_batch_size training.local_batch_size
    training.max_norm training.seed training.steps transform_process_num use_legacy use_parallel
    warmup_epochs with_stack wrapper.*
"""

"""Arguments of GPT-NeoX without a place in the normal form, of versions 1 to 3."""

KNOWN = frozenset(
    """
    activation activation_checkpointing.* adlr_autoresume adlr_autoresume_interval
    adlr_autoresume_object allow_chopped allow_chopped amp.* apply_query_key_layer_scaling
    async_tensor_model_parallel_allreduce attention_config attention_config[]
    attention_config[][] attention_type autotuning.* autotuning_run base_shapes_file bf16.*
    bias_dropout_fusion bias_gelu_fusion char_level_ppl checkpoint.* checkpoint_factor
    checkpoint_in_cpu checkpoint_scale checkpoint_validation_with_forward_pass comet_experiment
    comet_experiment_name comet_others comet_project comet_tags comet_workspace comment
    comms_logger.* communication_data_type compression_training.* config_files
    contiguous_checkpointing coord_check create_moe_param_group csv_monitor.*
    curriculum_learning.* curriculum_seqlen data_efficiency.* data_impl data_path data_types.*
    dataset_impl deepscale deepscale_config deepspeed deepspeed_activation_checkpointing
    deepspeed_config.* deepspeed_extra_args.* deepspeed_mpi deepspeed_slurm detect_nvlink_pairs
    dim_att distributed_backend do_test do_train do_valid dpo_beta dpo_fp32 dpo_reference_free
    dump_state dynamic_loss_scale eight_bit_optimizer elasticity.*
    enable_expert_tensor_parallelism eod_mask_loss eval_results_prefix eval_tasks exclude
    exit_interval expansion_factor expert_interval expert_token_counts extra_save_iters ffn_dim
    finetune flops_profiler.* force_multi fp16.* fp16_lm_cross_entropy fp32_reinforce fp8
    fp8_amax_compute_algo fp8_amax_history_len fp8_format fp8_interval fp8_margin fp8_mha
    fp8_wgrad fp8_params generate_sample_config git_hash gmlp_attn_dim gpt_j_tied
    gradient_noise_scale_cpu_offload gradient_noise_scale_n_batches gradient_predivide_factor
    head_size hostfile hysteresis include is_pipe_parallel iteration keep_last_n_checkpoints
    kto_beta kto_desirable_weight kto_fp32 kto_undesirable_weight launcher layernorm_epsilon
    layernorm_fusion lazy_mpu_init lbl_in_fp32 llama_mlp load load_universal local_rank log_dir
    log_grad_norm log_grad_pct_zeros log_gradient_noise_scale log_optimizer_states
    log_param_norm loss_scale loss_scale_window lr_decay_fraction mamba_causal_conv_fusion
    mamba_inner_func_fusion mamba_selective_fp32_params mamba_selective_scan_fusion
    mamba_use_bias_in_conv mamba_use_bias_in_linears master_addr master_port maximum_tokens
    memory_profiling memory_profiling_path merge_file min_scale mlp_multiple_of mlp_type
    mmap_warmup moe_base_layer moe_capacity_factor moe_eval_capacity_factor moe_expert_interval
    moe_freq moe_glu moe_jitter_eps moe_lbl_in_fp32 moe_loss_weight moe_min_capacity
    moe_router_type moe_token_dropping moe_type moe_use_residual moe_zloss_in_fp32
    moe_weight_parallelism mup_attn_temp mup_embedding_mult mup_init_scale mup_output_temp
    mup_rp_embedding_mult mup_width_scale neg_train_data_paths neg_train_label_data_paths
    neg_valid_data_paths neg_test_data_paths no_load_optim no_load_rng no_save_optim no_save_rng
    no_ssh_check norm_factor num_samples num_unique_layers onnx_safe onnx_save
    online_dataserver_ips online_dataserver_ports opt_pos_emb_offset optimizer.* optimizer_type
    output_layer_parallelism pack_impl packing param_sharing_style partition_activations
    peak_theoretical_tflops perform_rlhf pipe_partition_method pos_train_data_paths
    pos_valid_data_paths pos_test_data_paths precompute_model_name prescale_gradients profile
    profile_backward profile_step_start profile_step_stop prompt_end pytorch_profile_dir
    pytorch_profile rank recompute remote_device return_logits rms_norm_epsilon rmsnorm_fusion
    rope_fusion rotary_save_freqs_buffer rpe_max_distance rpe_num_buckets rwkv_fusion
    s3_chunk_size s3_path s3_sync_interval sample_input_file sample_output_file save
    save_base_shapes save_iters save_retain_interval scaled_masked_softmax_fusion
    scaled_upper_triang_masked_softmax_fusion scalenorm_epsilon scheduler.* serve_model_weights
    shared_expert_intermediate_size short_seq_prob slurm_comment soft_prompt_tuning.*
    sparse_attention.* sparse_gradients sparsity_config.* stats_log_interval steps_per_print
    synchronize_each_layer temperature tensorboard.* tensorboard_dir tensorboard_writer
    te_columnparallel te_rowparallel te_layernorm_mlp te_mha te_fp8_format te_fp8_wgrad
    te_fp8_amax_history_len te_fp8_amax_compute_algo te_fp8_margin te_fp8_mha test_data_paths
    test_data_weights text_gen_type tokenizer top_k top_p train_data_paths train_data_weights
    train_dataset_name train_impl train_label_data_paths train_label_data_paths
    train_reward_data_paths test_reward_data_paths valid_reward_data_paths test_label_data_paths
    valid_label_data_paths reward_type use_bnb_optimizer use_checkpoint_lr_scheduler use_comet
    use_cpu_initialization use_flashattn_swiglu use_bias_in_norms use_mup use_shared_fs
    use_tensorboard use_triton use_tutel use_wandb user_script valid_data_paths
    valid_data_weights valid_dataset_name wall_clock_breakdown wandb.* wandb_group wandb_host
    wandb_init_all_ranks wandb_project wandb_run_name wandb_team weight_by_num_documents
    weighted_document_limit weighted_sampler_alpha z_loss zero_allgather_bucket_size
    zero_allow_untested_optimizer zero_contiguous_gradients zero_optimization.*
    zero_reduce_bucket_size zero_reduce_scatter override_lr_scheduler masked_lm_prob
    mean_noise_span_length model_arch num_encoder_layers decoder_seq_length
    extra_sentinel_tokens loss_on_targets_only kl_impl kl_div_beta apply_rotary_pos_emb
    use_qk_layernorm dataset_impl megatron_config.*
    """.split()
)

"""The table of keys: what trainers call the catalogue's signals. Data, not logic.

Stems are lower case, with ``_`` for anything that is no letter, digit, dot or ``@``.
"""

import re

_SIGNALS: dict[str, str] = {
    "loss": "loss lm_loss train_loss training_loss reduced_train_loss trl ce_loss crossentropyloss "
    "cross_entropy cross_entropy_loss lm_loss_value loss_train ce xent language_modeling_loss "
    "global_avg_loss loss_metrics_global_avg_loss avg_loss train_loss_step train_lm_loss "
    "learning_loss reduced_loss loss_out",
    "validation_loss": "val_loss validation_loss valid_loss eval_loss tel dev_loss loss_val "
    "loss_eval eval_lm_loss validation_lm_loss lm_loss_validation validation_crossentropyloss "
    "eval_crossentropyloss eval_ce_loss val_loss_epoch evaluation_loss validation_metrics_loss "
    "eval_avg_loss",
    "validation_perplexity": "val_ppl valid_ppl eval_ppl validation_perplexity eval_perplexity "
    "val_perplexity lm_loss_ppl",
    "perplexity": "ppl perplexity train_ppl",
    "test_loss": "test_loss loss_test",
    "learning_rate": "lr learning_rate current_lr learning_rate_group0 lr_group_0 lr_adamw lr_0 "
    "current_learning_rate lr_scheduler learningrate lr_group0 lr_pg1 lr_adamw_pg1 "
    "lr_decoupledadamw_group0 base_lr optimizer_lr learning_rate_step",
    "grad_norm": "grad_norm gnorm gradnorm gradient_norm global_grad_norm total_grad_norm "
    "l2_norm_grad_global grad_norm_global global_gradient_norm raw_grad_norm grad_norm_total "
    "total_gradient_norm grad_norm_step global_norm gradients_norm optimizer_grad_norm "
    "grad_l2_norm gradient_norm_global raw_gradient_norm norm_grad",
    "param_norm": "params_norm param_norm params_norm_total weight_norm parameter_norm "
    "total_param_norm param_norm_total raw_param_norm",
    "loss_scale": "loss_scale loss_scaling lscale scale amp_scale current_loss_scale",
    "z_loss": "z_loss zloss lm_z_loss",
    "load_balancing_loss": "load_balancing_loss load_balance_loss aux_loss moe_aux_loss "
    "router_aux_loss moe_loss balance_loss",
    "router_z_loss": "router_z_loss moe_router_z_loss",
    "step_time": "elapsed_time_per_iteration iteration_time step_time time_per_step "
    "train_step_timing step_timing dt seconds sec_per_step iter_time time_per_iteration "
    "seconds_per_step seconds_per_iteration per_step_time iteration_timing train_step_time "
    "batch_time step_seconds seconds_total duration time_step s_per_step time_metrics_end_to_end "
    "curr_iter_time",
    "samples_per_second": "samples_sec samples_per_second samples_per_sec samples_s samplespersec "
    "train_samples_per_second sample_per_second",
    "tokens_per_second": "tps tokens_s tokens_sec tokens_per_second tokens_per_sec wps tok_sec "
    "tok_s tok_per_sec tokens_per_sec_total words_per_second throughput_total_tokens_per_second",
    "tokens_per_second_per_device": "tgs tokens_per_sec_per_gpu tokens_per_second_per_gpu "
    "tokens_gpu_second tokens_gpu_s real_tgs tokens_s_device tokens_sec_device tokens_s_gpu "
    "tgs_tokens_gpu_second device_tokens_per_second tokens_per_device_per_second tps_per_gpu "
    "tokens_per_gpu_per_second device_throughput tokens_gpu_sec throughput_tps "
    "per_device_tokens_per_sec",
    "tflops_per_device": "tflops tflop_s tflops_s throughput_per_gpu model_tflops_per_gpu "
    "tflop_s_device tflops_gpu tflops_per_gpu tflop_s_gpu approx_flops_per_gpu "
    "flops_per_gpu tflops_per_device tflops_throughput_per_gpu model_tflop_s_gpu "
    "throughput_tflops model_tflops tflop_s_per_gpu per_device_tflops "
    "per_device_tflops_per_sec",
    "mfu": "mfu train_mfu throughput_mfu model_flops_utilization throughput_device_mfu",
    "consumed_samples": "consumed_samples consumed_train_samples samples_count total_samples "
    "num_consumed_samples train_samples",
    "consumed_tokens": "consumed_tokens consumed_train_tokens num_consumed_tokens total_tokens "
    "trained_tokens n_tokens_seen tokens_seen ntokens_seen num_input_tokens_seen num_tokens_seen "
    "trained_tokens_total tokens_trained cumulative_tokens global_train_tokens token_in_total",
    "batch_size": "global_batch_size batch_size bsz global_bs gbs",
    "skipped_iterations": "number_of_skipped_iterations skipped_iterations skipped",
    "nan_iterations": "number_of_nan_iterations nan_iterations",
    "num_zeros": "num_zeros number_of_zeros num_zeros_in_grad",
    "memory": "memory max_allocated mem_max_allocated max_memory_allocated peak_mem peak_memory "
    "peak_gpu_memory max_mem max_allocated_memory peak_gpu_memory_mb max_memory mem_max "
    "memory_max_active memory_peak max_cuda_memory_allocated memory_max_allocated",
    "memory_allocated": "mem_allocated allocated memory_allocated allocated_memory mem "
    "cuda_memory_allocated memory_allocated",
    "memory_reserved": "max_reserved max_memory_reserved mem_max_reserved memory_max_reserved "
    "reserved_max",
    "accuracy": "acc accuracy train_accuracy token_accuracy token_acc mean_token_accuracy",
    "validation_accuracy": "eval_accuracy val_accuracy valid_accuracy val_acc eval_acc "
    "eval_token_acc eval_mean_token_accuracy eval_token_accuracy",
    "epoch": "epoch",
    "attention_logit_max": "max_attention_logit attention_logit_max max_attn_logit",
    "update_skipped": "update_skipped skipped_step",
    "log_z": "log_z logz",
    "timestamp": "timestamp wall_time _timestamp",
    "consumed_runtime": "_runtime",
}

ALIASES: dict[str, str] = {
    alias: signal for signal, aliases in _SIGNALS.items() for alias in (*aliases.split(), signal)
}

STRIPPED = (
    "train_", "training_", "metrics_", "throughput_", "optim_", "optimizer_", "trainer_", "perf_",
    "global_", "model_", "debug_", "stats_", "time_", "system_", "loss_metrics_", "losses_",
    "learning_", "speed_",
)  # fmt: skip
"""Groups that trainers put before a key (``train/loss``, ``optim/total_grad_norm``)."""

LOCALISED: dict[str, str] = {
    "损失": "loss", "训练损失": "train_loss", "损失值": "loss", "验证损失": "val_loss",
    "学习率": "learning_rate", "梯度范数": "grad_norm", "梯度": "grad_norm", "步数": "step",
    "步": "step", "步骤": "step", "迭代": "iteration", "训练步数": "step", "轮次": "epoch",
    "轮": "epoch", "全局步数": "global_step", "损失缩放": "loss_scale", "每步时间": "step_time",
    "損失": "loss", "訓練損失": "train_loss", "学習損失": "train_loss", "検証損失": "val_loss",
    "学習率": "learning_rate", "勾配ノルム": "grad_norm", "ステップ": "step",
    "ステップ数": "step", "反復": "iteration", "エポック": "epoch", "学习速率": "learning_rate",
    "學習率": "learning_rate", "梯度範數": "grad_norm", "步數": "step", "ロス": "loss",
    "イテレーション": "iteration", "耗时": "step_time", "吞吐量": "tokens_per_second",
    "吞吐": "tokens_per_second", "批大小": "batch_size", "全局批大小": "global_batch_size",
    "バッチサイズ": "batch_size", "訓練ロス": "train_loss", "検証ロス": "val_loss",
}  # fmt: skip
"""Keys in Chinese and Japanese."""

STEPS = (
    "step", "global_step", "iteration", "iter", "_step", "current_steps", "train_global_step",
    "trainer_global_step", "steps", "update", "num_updates", "train_step", "current_step", "it",
    "train_iteration", "iterations", "global_steps", "train_steps", "batch", "optimizer_step",
    "trainer_step", "training_step", "global_iteration", "step_num", "n_iter", "completed_steps",
)  # fmt: skip
"""Stems under which the step is found, the surest first."""

PLACES: tuple[tuple[re.Pattern[str], str], ...] = (
    # OLMo: optim/grad/transformer.blocks.7.att_proj.weight.norm
    (re.compile(r"(?:optim/|train/)?(?:grad)/([\w.]{1,200})\.(norm|min|max|avg|rms)"), "grad_{}"),
    (re.compile(r"(?:optim/|train/)?(?:param)/([\w.]{1,200})\.(norm|min|max|avg|rms)"), "param_{}"),
    (
        re.compile(r"(?:optim/|train/)?update/([\w.]{1,200})\.(norm|min|max|avg|rms)"),
        "update_{}",
    ),
    (
        re.compile(r"(?:optim/|train/)?exp_avg_sq/([\w.]{1,200})\.(norm|min|max|avg|rms)"),
        "second_moment_{}",
    ),
    (
        re.compile(r"(?:optim/|train/)?exp_avg/([\w.]{1,200})\.(norm|min|max|avg|rms)"),
        "first_moment_{}",
    ),
    # Levanter: grad/norm/transformer/layers/7/... ; Composer: l2_norm/grad/model...
    (re.compile(r"(?:train/)?grads?/norm/((?!total$)[\w./]{1,200})"), "grad_norm"),
    (re.compile(r"(?:train/)?params?/norm/((?!total$)[\w./]{1,200})"), "param_norm"),
    (re.compile(r"(?:train/)?updates?/norm/((?!total$)[\w./]{1,200})"), "update_norm"),
    (re.compile(r"l2_norm/grad/((?!global$)[\w./]{1,200})"), "grad_norm"),
    (re.compile(r"l2_norm/param/([\w./]{1,200})"), "param_norm"),
    (re.compile(r"l2_norm/update/([\w./]{1,200})"), "update_norm"),
    (re.compile(r"l2_norm/moment/([\w./]{1,200})"), "first_moment_norm"),
    # NeMo and others: grad_norm/layers.3.attention
    (re.compile(r"(?:train/)?grad_norm/((?!global$|total$|step$)[\w./]{1,200})"), "grad_norm"),
    (re.compile(r"(?:train/)?param_norm/((?!global$|total$)[\w./]{1,200})"), "param_norm"),
    (re.compile(r"max_attention_logit/([\w./]{1,200})"), "attention_logit_max"),
)
"""Keys that hold the place: pattern (place first, then the statistic) -> signal."""

"""nanotron: its YAML."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import (
    Signed,
    each,
    flag,
    number,
    positive,
    say_mixture,
    under,
    word,
)

_MODEL = "model.model_config"


class Nanotron(Signed):
    """``run_train.py --config-file``; every rank accumulates ``batch_accumulation_per_replica``."""

    name = "nanotron"
    title = "nanotron"
    version = "nanotron 0.4"
    kinds = frozenset({"yaml", "json"})
    misreads = True
    keys: ClassVar[Mapping[str, str | To]] = {
        "general.run": "name",
        "general.seed": "seed",
        f"{_MODEL}.num_hidden_layers": "architecture.layers",
        f"{_MODEL}.hidden_size": "architecture.width",
        f"{_MODEL}.num_attention_heads": "architecture.heads",
        f"{_MODEL}.num_key_value_heads": "architecture.kv_heads",
        f"{_MODEL}.num_kv_heads": "architecture.kv_heads",
        f"{_MODEL}.head_dim": "architecture.head_dim",
        f"{_MODEL}.intermediate_size": "architecture.ff_width",
        f"{_MODEL}.vocab_size": To("architecture.vocab_size", positive),
        f"{_MODEL}.max_position_embeddings": "architecture.max_positions",
        f"{_MODEL}.rms_norm_eps": "architecture.norm_eps",
        f"{_MODEL}.layer_norm_epsilon": "architecture.norm_eps",
        f"{_MODEL}.rope_theta": "architecture.rope_theta",
        f"{_MODEL}.tie_word_embeddings": "architecture.tied_embeddings",
        f"{_MODEL}.attention_bias": "architecture.bias_qkv",
        f"{_MODEL}.resid_pdrop": "architecture.dropout",
        f"{_MODEL}.attn_pdrop": "architecture.attention_dropout",
        f"{_MODEL}.sliding_window_size": "architecture.window",
        f"{_MODEL}.sliding_window": "architecture.window",
        f"{_MODEL}.moe_config.num_experts": "architecture.experts",
        f"{_MODEL}.moe_config.top_k": "architecture.experts_per_token",
        f"{_MODEL}.moe_config.moe_intermediate_size": "architecture.expert_ff_width",
        "model.init_method.std": "init.std",
        "model.make_vocab_size_divisible_by": "architecture.vocab_multiple",
        "model.dtype": To("precision.compute", words.number_format),
        "tokenizer.tokenizer_name_or_path": "data.tokenizer",
        "tokens.sequence_length": "architecture.sequence_length",
        "tokens.train_steps": "schedule.steps",
        "tokens.micro_batch_size": "batch.micro_size",
        "tokens.batch_accumulation_per_replica": "batch.accumulation",
        "tokens.val_check_interval": To("interval.evaluate", positive),
        "tokens.limit_val_batches": To("interval.evaluate_batches", positive),
        "optimizer.optimizer_factory.name": To("optimizer.name", words.optimizer),
        "optimizer.zero_stage": "parallelism.zero_stage",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.clip_grad": "optimizer.clip_norm",
        "optimizer.accumulate_grad_in_fp32": To("precision.gradient_reduce", flag("fp32")),
        "optimizer.learning_rate_scheduler.learning_rate": "optimizer.learning_rate",
        "optimizer.learning_rate_scheduler.lr_warmup_steps": "schedule.warmup_steps",
        "optimizer.learning_rate_scheduler.min_decay_lr": "schedule.min_learning_rate",
        "parallelism.dp": "parallelism.data",
        "parallelism.tp": "parallelism.tensor",
        "parallelism.pp": "parallelism.pipeline",
        "parallelism.context_parallel_size": "parallelism.context",
        "parallelism.expert_parallel_size": "parallelism.expert",
        "parallelism.tp_linear_async_communication": "parallelism.overlap_tensor",
        "parallelism.recompute_layer": To("parallelism.recompute", flag("full", "none")),
        "checkpoints.checkpoint_interval": "interval.checkpoint",
        "logging.iteration_step_info_interval": "interval.log",
        **{
            f"{table}{key}": f"optimizer.{field}"
            for table in ("optimizer.", "optimizer.optimizer_factory.")
            for key, field in (("adam_beta1", "beta1"), ("adam_beta2", "beta2"),
                               ("adam_eps", "eps"), ("torch_adam_is_fused", "fused"))
        },
    }  # fmt: skip
    known = (
        frozenset(
            """
            data_stages data_stages[].name data_stages[].start_training_step
            data_stages[].sequence_length data_stages[].data.* data_stages.* lighteval.*
            s3_upload.* profiler.* experiment_logger.* metrics_logging.* data.dataset.* lighteval
            s3_upload profiler doremi.* fp8.* optimizer.optimizer_factory.* data data.seed
            data.num_loading_workers data.dataset metrics_logging model.init_method.path
            model.init_method.use_mup model.init_method.scaling_method model.ddp_bucket_cap_mb
            """.split()
        )
        | under(
            "general",
            "project entity step consumed_train_samples benchmark_csv_path ignore_sanity_checks "
            "name kill_switch_path run_train_script",
        )
        | under("checkpoints", "checkpoints_path checkpoints_path_is_shared_file_system "
                "resume_checkpoint_path save_initial_state save_final_state load_lr_scheduler "
                "load_optimizer")
        | under("logging", "log_level log_level_replica")
        | under(
            "parallelism",
            "pp_engine tp_mode tp_recompute_allgather moe_layer_recompute pp_recompute_granularity "
            "recompute_granularity",
        )
        | under("tokenizer", "tokenizer_max_length tokenizer_revision")
        | under("tokens", "limit_test_batches")
        | under("optimizer", "weight_decay_exclude_named_params muon_config.*")
        | under(
            "optimizer.learning_rate_scheduler",
            "lr_warmup_style lr_decay_style lr_decay_steps lr_decay_starting_step",
        )
        | under(
            _MODEL,
            "bos_token_id eos_token_id pad_token_id hidden_act is_llama_config is_qwen2_config "
            "is_starcoder2_config is_mistral_config is_mamba_config pretraining_tp rope_scaling "
            "rope_scaling.* rope_interleaved use_cache initializer_range activation_function "
            "attention_softmax_in_fp32 embd_pdrop global_attn_layers grouped_query multi_query "
            "scale_attention_softmax_in_fp32 scale_attn_weights use_position_embeddings "
            "use_rotary_embeddings no_rope_layer _attn_implementation _fused_rms_norm "
            "_fused_rotary_emb _use_qkv_packed _use_doc_masking flex_attention_mask "
            "moe_config.* max_window_layers use_sliding_window ring_attn_heads_k_stride "
            "attn_implementation fused_rms_norm fused_rotary_emb use_qkv_packed "
            "log_attn_probs ring_attn z_loss_enabled interleave_moe_layer_step "
            "no_rope_layer_interval interleaved_rotary moe_config z_loss_coefficient",
        )
    )  # fmt: skip
    signs = frozenset(
        {"tokens.batch_accumulation_per_replica", "checkpoints.checkpoint_interval",
         "parallelism.tp_mode", "optimizer.learning_rate_scheduler.lr_warmup_steps",
         "model.init_method.std", "logging.iteration_step_info_interval",
         "checkpoints.checkpoints_path", "optimizer.learning_rate_scheduler.learning_rate"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """The decay, tensor-parallel mode, the model's kind, the first stage of the data."""
        self._decay(draft)
        mode = draft.value("parallelism.tp_mode")
        if mode is not None:
            scattered = str(mode).upper().rpartition(".")[2] == "REDUCE_SCATTER"
            draft.say("parallelism.sequence", scattered, "parallelism.tp_mode")
        act = word(draft, f"{_MODEL}.hidden_act")
        plain = word(draft, f"{_MODEL}.activation_function")
        if act is not None:  # gate and up projection in its Llama and Qwen
            found = words.activation(act)
            gated = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(found, found)
            draft.say("architecture.activation", gated, f"{_MODEL}.hidden_act")
        elif plain is not None:
            key = f"{_MODEL}.activation_function"
            draft.say("architecture.activation", words.activation(plain), key)
        if draft.has(f"{_MODEL}.rms_norm_eps"):
            draft.say("architecture.norm", "rmsnorm", f"{_MODEL}.rms_norm_eps")
        elif draft.has(f"{_MODEL}.layer_norm_epsilon"):
            draft.say("architecture.norm", "layernorm", f"{_MODEL}.layer_norm_epsilon")
        key = f"{_MODEL}.z_loss_coefficient"
        if draft.true(f"{_MODEL}.z_loss_enabled") and draft.has(key):
            draft.say("loss.z_loss_weight", draft.value(key), key)
        self._data(draft)

    def _decay(self, draft: Draft) -> None:
        table = "optimizer.learning_rate_scheduler"
        style = word(draft, f"{table}.lr_decay_style")
        start, length = f"{table}.lr_decay_starting_step", f"{table}.lr_decay_steps"
        warmup = number(draft, f"{table}.lr_warmup_steps") or 0
        begins = number(draft, start)
        if begins is not None and begins > warmup:  # the rate stays until then
            draft.say("schedule.kind", "wsd", start)
            if style is not None:
                draft.say("schedule.decay_kind", words.schedule(style), f"{table}.lr_decay_style")
            if draft.has(length):
                draft.say("schedule.decay_steps", draft.value(length), length)
            return
        if style is not None:
            draft.say("schedule.kind", words.schedule(style), f"{table}.lr_decay_style")
        if number(draft, length):
            draft.say("schedule.decay_steps", warmup + (number(draft, length) or 0), length)

    def _data(self, draft: Draft) -> None:
        for table in ("data_stages[].data", "data"):
            for name in ("hf_dataset_or_datasets", "dataset_folder"):
                key = f"{table}.dataset.{name}"
                found = each(draft, key)
                if found:  # of the first stage; later ones are in the options
                    draft.leaves[key] = found[0][0]
                    say_mixture(draft, key)
            weights = each(draft, f"{table}.dataset.dataset_weights")
            if weights:
                draft.leaves[f"{table}.dataset.dataset_weights"] = weights[0][0]
                draft.say("data.weights", weights[0][1], f"{table}.dataset.dataset_weights")
            for name, field in (("seed", "seed"), ("num_loading_workers", "workers")):
                stages = each(draft, f"{table}.{name}")
                if stages:
                    draft.leaves[f"{table}.{name}"] = stages[0][0]
                    draft.say(f"data.{field}", stages[0][1], f"{table}.{name}")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What the dataclasses fill in."""
        found = dict(_FILLS)
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        if draft.true(f"{_MODEL}.is_llama_config"):
            found |= _LLAMA
        if rate := spec.get("optimizer.learning_rate"):
            found["schedule.min_learning_rate"] = rate
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 42,
    "precision.compute": "bf16",
    "schedule.kind": "linear",
    "schedule.warmup_steps": 0,
    "parallelism.context": 1,
    "parallelism.recompute": "none",
    "parallelism.sequence": False,
    "parallelism.overlap_tensor": False,
    "architecture.vocab_multiple": 1,
    "interval.log": 1,
}
_LLAMA: Mapping[str, Any] = {
    "architecture.norm": "rmsnorm",
    "architecture.norm_eps": 1e-6,
    "architecture.norm_placement": "pre",
    "architecture.activation": "swiglu",
    "architecture.position": "rope",
    "architecture.rope_theta": 10000.0,
    "architecture.tied_embeddings": False,
    "architecture.bias": False,
}

FORMAT = Nanotron()

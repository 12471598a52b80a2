"""OLMo, the first trainer of that name (``allenai/OLMo``): its YAML."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._references import resolved
from surefoot.readers.configs.trainers._shared import (
    Signed,
    down,
    number,
    positive,
    say_betas,
    say_duration,
    say_each,
    under,
)
from surefoot.readers.configs.trainers._training_arguments import sharding

_SCHEDULES = {
    "cosine_with_warmup": "cosine",
    "linear_with_warmup": "linear",
    "inverse_sqrt_with_warmup": "inverse-sqrt",
    "constant": "constant",
    "constant_with_warmup": "constant",
    "max_scheduler": "max",
    "bolt_on_warmup_scheduler": "bolt-on",
    "cosine_linear_envelope": "cosine-linear",
}
_NORMS = {"default": "layernorm", "low_precision": "layernorm", "rms": "rmsnorm"}


def _recompute(value: Any) -> str:
    word = str(value).lower()
    if value is None or word in ("none", "false"):
        return "none"
    return "full" if word == "whole_layer" else "selective"


class Olmo(Signed):
    """``scripts/train.py configs/official/OLMo-7B.yaml``."""

    name = "olmo"
    title = "OLMo"
    version = "OLMo 0.6"
    kinds = frozenset({"yaml", "json"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "run_name": "name",
        "seed": "seed",
        "model.d_model": "architecture.width",
        "model.n_heads": "architecture.heads",
        "model.n_kv_heads": "architecture.kv_heads",
        "model.n_layers": "architecture.layers",
        "model.vocab_size": "architecture.vocab_size",
        "model.embedding_size": "architecture.padded_vocab_size",
        "model.max_sequence_length": "architecture.sequence_length",
        "model.activation_type": To("architecture.activation", words.activation),
        "model.layer_norm_type": To("architecture.norm", lambda v: _NORMS.get(str(v), str(v))),
        "model.layer_norm_eps": "architecture.norm_eps",
        "model.attention_layer_norm": "architecture.qk_norm",
        "model.embedding_layer_norm": "architecture.embedding_norm",
        "model.weight_tying": "architecture.tied_embeddings",
        "model.include_bias": "architecture.bias",
        "model.rope_theta": "architecture.rope_theta",
        "model.residual_dropout": "architecture.dropout",
        "model.attention_dropout": "architecture.attention_dropout",
        "model.init_fn": "init.method",
        "model.init_std": "init.std",
        "model.emb_init_std": "init.embedding_std",
        "optimizer.name": To("optimizer.name", words.optimizer),
        "optimizer.learning_rate": "optimizer.learning_rate",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.eps": "optimizer.eps",
        "optimizer.decay_embeddings": "optimizer.decay_embeddings",
        "scheduler.name": To("schedule.kind", lambda v: _SCHEDULES.get(str(v), str(v))),
        "scheduler.alpha_f": "schedule.final_factor",
        "scheduler.warmup_min_lr": "schedule.warmup_from",
        "max_grad_norm": "optimizer.clip_norm",
        "precision": To("precision.compute", words.number_format),
        "global_train_batch_size": "batch.global_size",
        "device_train_microbatch_size": "batch.micro_size",
        "device_train_grad_accum": "batch.accumulation",
        "activation_checkpointing": To("parallelism.recompute", _recompute),
        "fsdp.sharding_strategy": To("parallelism.fsdp", sharding),
        "tokenizer.identifier": "data.tokenizer",
        "data.num_workers": "data.workers",
        "data.seed": "data.seed",
        "console_log_interval": "interval.log",
        "save_interval": To("interval.checkpoint", positive),
        "eval_interval": To("interval.evaluate", positive),
        "eval_subset_num_batches": To("interval.evaluate_batches", positive),
    }
    known = (
        frozenset(
            """
            epoch dry_run evaluators.* evaluators wandb.* speed_monitor.* compile compile.*
            fsdp.* ddp.* data.* restore_dataloader fast_forward_batches save_folder
            remote_save_folder canceled_check_interval save_interval_unsharded
            save_interval_ephemeral save_num_checkpoints_to_keep
            save_num_unsharded_checkpoints_to_keep save_overwrite force_save_unsharded
            no_pre_train_checkpoint load_path load_path_sharded_checkpointer try_load_latest_save
            reset_optimizer_state reset_trainer_state sharded_checkpointer new_style_checkpoints
            max_duration device_train_batch_size device_eval_batch_size eval_on_load
            max_grad_norm_ratio gen1_gc_interval distributed_strategy softmax_auxiliary_loss
            auxiliary_loss_multiplier time_limit extra_steps_after_cancel early_stopping_factor
            save_data_indices python_profiling torch_profiling stop_at stop_after fused_loss
            hf_datasets_cache_dir module_outputs_save_steps tokenizer.truncate_direction wandb
            speed_monitor activation_checkpointing_reentrant instance_filter.*
            moe_freq moe_loss_weight moe_zloss_weight moe_log_expert_assignment init_seed
            """.split()
        )
        | under(
            "model",
            "mlp_ratio mlp_hidden_size block_type block_group_size alibi alibi_bias_max rope "
            "rope_full_precision flash_attention multi_query_attention clip_qkv "
            "embedding_dropout layer_norm_with_affine attention_layer_norm_with_affine "
            "bias_for_layer_norm scale_logits eos_token_id pad_token_id init_device "
            "init_cutoff_factor precision scale_emb_init norm_after rope_full_precision "
            "moe_num_experts moe_top_k moe_mlp_impl moe_log_expert_assignment moe_shared_expert "
            "moe_lbl_in_fp32 moe_loss_weight moe_zloss_weight moe_dropless moe_capacity_factor",
        )
        | under(
            "optimizer",
            "betas decay_norm_and_bias no_decay_norm_and_bias selective_updates "
            "metrics_log_interval record_update_metrics",
        )
        | under("scheduler", "units t_warmup t_max grad_clip_warmup_steps grad_clip_warmup_factor")
    )
    signs = frozenset(
        {"model.block_type", "model.activation_type", "model.layer_norm_type",
         "model.weight_tying", "model.embedding_size", "save_interval_unsharded",
         "fsdp.wrapping_strategy", "softmax_auxiliary_loss", "optimizer.decay_norm_and_bias",
         "canceled_check_interval", "model.attention_layer_norm", "sharded_checkpointer"}
    )  # fmt: skip

    def read(self, document: Document) -> Draft:
        """With the references put in."""
        return super().read(resolved(document))

    def interpret(self, draft: Draft) -> None:
        """Durations, widths, positions, what is decayed."""
        say_betas(draft, "optimizer.betas")
        self._durations(draft)
        self._layers(draft)
        for key in ("optimizer.decay_norm_and_bias", "optimizer.no_decay_norm_and_bias"):
            if draft.has(key):
                decayed = draft.true(key) is ("no_decay" not in key)
                draft.say("optimizer.decay_norms", decayed, key)
                draft.say("optimizer.decay_biases", decayed, key)
        if draft.true("softmax_auxiliary_loss"):
            weight = number(draft, "auxiliary_loss_multiplier")
            key = "auxiliary_loss_multiplier" if weight is not None else "softmax_auxiliary_loss"
            draft.say("loss.z_loss_weight", 1e-4 if weight is None else weight, key)
        if str(draft.value("distributed_strategy", "")).lower() == "ddp":
            draft.say("parallelism.fsdp", "none", "distributed_strategy")
        compiled = [key for key in draft.leaves if key.split(".")[0] == "compile"]
        if compiled:
            off = compiled == ["compile"] and draft.leaves["compile"].value in (None, False)
            draft.say("parallelism.compile", not off, compiled[0])
        say_each(draft, "data.sources", "data.paths")

    def _durations(self, draft: Draft) -> None:
        units = {"": "schedule.steps", "t": "schedule.tokens", "ep": "schedule.epochs"}
        say_duration(draft, "max_duration", units)
        unit = "tokens" if draft.value("scheduler.units") == "tokens" else "steps"
        for name, key in (("warmup", "scheduler.t_warmup"), ("decay", "scheduler.t_max")):
            say_duration(draft, key, {"": f"schedule.{name}_{unit}"})

    def _layers(self, draft: Draft) -> None:
        width = number(draft, "model.d_model")
        # The projection of a gated feed-forward holds gate and values: half is its width.
        half = 2 if draft.value("model.activation_type", "swiglu") == "swiglu" else 1
        if number(draft, "model.mlp_hidden_size"):
            inner = (number(draft, "model.mlp_hidden_size") or 0) // half
            draft.say("architecture.ff_width", inner, "model.mlp_hidden_size")
        elif width and number(draft, "model.mlp_ratio"):
            inner = down(width * (number(draft, "model.mlp_ratio") or 0)) // half
            draft.say("architecture.ff_width", inner, "model.mlp_ratio")
        if draft.true("model.multi_query_attention"):
            draft.say("architecture.kv_heads", 1, "model.multi_query_attention")
        for word in ("alibi", "rope"):
            if draft.true(f"model.{word}"):
                draft.say("architecture.position", word, f"model.{word}")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """TrainConfig's values."""
        found = dict(_FILLS)
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        if width := spec.get("architecture.width"):
            gated = spec.get("architecture.activation", "swiglu") == "swiglu"
            found["architecture.ff_width"] = 2 * width if gated else 4 * width
        if spec.get("architecture.position") == "rope":
            found["architecture.rope_theta"] = 10000.0
        if not {"schedule.steps", "schedule.tokens", "schedule.epochs"} & spec.keys():
            found["schedule.steps"] = 10000
        if spec.get("schedule.warmup_tokens") is None:
            found["schedule.warmup_steps"] = 100
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 6198,
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.activation": "swiglu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.qk_norm": False,
    "architecture.bias": True,
    "architecture.dropout": 0.1,
    "architecture.attention_dropout": 0.1,
    "architecture.sequence_length": 1024,
    "init.method": "normal",
    "init.std": 0.02,
    "optimizer.name": "lion",
    "optimizer.learning_rate": 1e-4,
    "optimizer.weight_decay": 0.01,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.95,
    "optimizer.eps": 1e-5,
    "optimizer.decay_embeddings": False,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "schedule.kind": "cosine",
    "schedule.final_factor": 0.1,
    "batch.global_size": 512,
    "batch.micro_size": 16,
    "parallelism.fsdp": "full",
    "parallelism.recompute": "none",
    "parallelism.compile": False,
    "interval.log": 1,
    "interval.checkpoint": 1000,
    "interval.evaluate": 1000,
}

FORMAT = Olmo()

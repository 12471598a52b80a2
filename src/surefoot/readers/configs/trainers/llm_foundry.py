"""llm-foundry: its YAML, with the variables put in and the durations of Composer."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._references import resolved
from surefoot.readers.configs.trainers._shared import (
    Signed,
    down,
    flag,
    inverted,
    number,
    positive,
    say_betas,
    say_duration,
    say_each,
    under,
    word,
)
from surefoot.readers.configs.trainers._training_arguments import sharding

_STEPS = {"": "steps", "ba": "steps", "sp": "samples", "tok": "tokens", "ep": "epochs"}
"""Unit of a duration -> field of a schedule; ``dur`` is a share of the run."""


def _places(name: str) -> dict[str, str]:
    found = {unit: f"schedule.{name}{word}" for unit, word in _STEPS.items()}
    if name:
        del found["ep"]
    return found


class LlmFoundry(Signed):
    """``composer train.py mpt-7b.yaml``."""

    name = "llm-foundry"
    title = "llm-foundry"
    version = "llm-foundry 0.22"
    kinds = frozenset({"yaml", "json"})
    autos = frozenset({"auto"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "run_name": "name",
        "seed": "seed",
        "global_seed": "seed",
        "max_seq_len": "architecture.sequence_length",
        "model.d_model": "architecture.width",
        "model.n_heads": "architecture.heads",
        "model.n_layers": "architecture.layers",
        "model.head_dim": "architecture.head_dim",
        "model.max_seq_len": "architecture.max_positions",
        "model.vocab_size": "architecture.vocab_size",
        "model.resid_pdrop": "architecture.dropout",
        "model.attn_pdrop": "architecture.attention_dropout",
        "model.no_bias": To("architecture.bias", inverted),
        "model.attention_bias": "architecture.bias_qkv",
        "model.norm_type": To("architecture.norm", words.norm),
        "model.norm_eps": "architecture.norm_eps",
        "model.tie_word_embeddings": "architecture.tied_embeddings",
        "model.final_logit_softcapping": "architecture.logit_softcap",
        "model.attn_config.attn_pdrop": "architecture.attention_dropout",
        "model.attn_config.kv_n_heads": "architecture.kv_heads",
        "model.attn_config.qk_ln": "architecture.qk_norm",
        "model.attn_qk_ln": "architecture.qk_norm",
        "model.attn_config.sliding_window_size": To("architecture.window", positive),
        "model.attn_config.attn_logit_softcapping": "architecture.attention_softcap",
        "model.ffn_config.ffn_hidden_size": "architecture.ff_width",
        "model.ffn_config.moe_num_experts": "architecture.experts",
        "model.ffn_config.moe_top_k": "architecture.experts_per_token",
        "model.ffn_config.moe_loss_weight": "loss.balance_weight",
        "model.init_config.name": "init.method",
        "model.init_config.init_std": "init.std",
        "model.init_config.emb_init_std": "init.embedding_std",
        "model.init_config.init_div_is_residual": To(
            "init.depth_scaled_outputs", lambda v: v is not False
        ),
        "model.param_init_fn": "init.method",
        "model.init_std": "init.std",
        "model.emb_init_std": "init.embedding_std",
        "optimizer.name": To("optimizer.name", words.optimizer, keep=True),
        "optimizer.lr": "optimizer.learning_rate",
        "optimizer.eps": "optimizer.eps",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.momentum": "optimizer.momentum",
        "scheduler.name": To("schedule.kind", words.schedule),
        "scheduler.alpha_f": "schedule.final_factor",
        "scheduler.alpha_f_cooldown": "schedule.final_factor",
        "precision": To("precision.compute", words.number_format),
        "global_train_batch_size": "batch.global_size",
        "device_train_microbatch_size": "batch.micro_size",
        "device_train_grad_accum": "batch.accumulation",
        "grad_accum": "batch.accumulation",
        "fsdp_config.sharding_strategy": To("parallelism.fsdp", sharding),
        "fsdp_config.activation_checkpointing": To("parallelism.recompute", flag("full", "none")),
        "tp_config.tensor_parallel_degree": "parallelism.tensor",
        "n_gpus": "parallelism.world_size",
        "tokenizer.name": "data.tokenizer",
        "tokenizer_name": "data.tokenizer",
        "train_loader.num_workers": "data.workers",
        "train_loader.dataset.shuffle": "data.shuffle",
        "train_loader.dataset.shuffle_seed": "data.seed",
        "eval_subset_num_batches": To("interval.evaluate_batches", positive),
        "algorithms.label_smoothing.smoothing": "loss.label_smoothing",
    }
    known = frozenset(
        """
            variables.* model.attn_config.* model.ffn_config.* model.init_config.* model.fc_type.*
            model.fc_type model.block_overrides.* model.config_overrides.* model.lora.*
            model.peft_config.* peft_config.* tokenizer.kwargs.* tokenizer.* train_loader.*
            eval_loader.* eval_loaders.* icl_tasks icl_tasks.* eval_gauntlet.* eval_gauntlet
            icl_tasks_str eval_gauntlet_str loggers.* callbacks.* profiler.* algorithms.*
            fsdp_config.* tp_config.* compile_config.* compile_config metadata.* code_paths
            mlflow_logging_config.* icl_subset_num_batches icl_seq_len max_duration
            eval_interval eval_first device_eval_batch_size progress_bar log_to_console
            python_log_level console_log_interval log_config save_folder save_latest_filename
            save_overwrite save_weights_only save_filename save_interval
            save_num_checkpoints_to_keep load_path load_weights_only load_strict_model_weights
            load_ignore_keys save_ignore_keys only_hf_checkpoint only_composer_checkpoint
            train_subset_num_batches device_train_batch_size max_split_size_mb expandable_segments
            cuda_load_lazy dist_timeout accumulate_train_batch_on_tokens spin_dataloaders
            flatten_metadata autoresume data_local data_remote run_name_suffix lora.*
            optimizer optimizer.betas optimizer.rho optimizer.foreach optimizer.outlier_threshold
            optimizer.decouple optimizer.disable_grad optimizer.param_groups.*
            scheduler.t_warmup scheduler.t_max scheduler.t_scale scheduler.t_cooldown
            scheduler.alpha_f_decay scheduler.alpha_i scheduler.scale_warmup scheduler.alpha
            fsdp_dict_type_requires_shard eval_output_logging loss_fn tokenizer_kwargs.*
            """.split()
    ) | under(
        "model",
        "name pretrained_model_name_or_path pretrained pretrained_lora_id_or_path init_device "
        "use_auth_token trust_remote_code load_in_8bit use_flash_attention_2 loss_fn "
        "expansion_ratio mlp_ratio emb_pdrop learned_pos_emb alibi logit_scale "
        "embedding_fraction verbose use_cache attn_impl device tokenizer_name "
        "additional_train_metrics additional_eval_metrics use_train_metrics use_logits "
        "allow_embedding_resizing use_pad_tok_in_ffn attn_clip_qkv low_precision_layernorm "
        "softmax_scale config_overrides attn_config ffn_config init_config peft_config",
    )
    signs = frozenset(
        {"model.attn_config.*", "train_loader.dataset.*", "eval_loader.dataset.*",
         "algorithms.gradient_clipping.*", "icl_tasks", "model.expansion_ratio",
         "train_loader.name", "callbacks.lr_monitor", "global_seed", "variables.global_seed"}
    )  # fmt: skip

    def read(self, document: Document) -> Draft:
        """With the references put in."""
        return super().read(resolved(document))

    def interpret(self, draft: Draft) -> None:
        """Durations, positions, gates, clipping."""
        say_betas(draft, "optimizer.betas")
        self._durations(draft)
        self._layers(draft)
        kind = str(draft.value("algorithms.gradient_clipping.clipping_type", ""))
        key = "algorithms.gradient_clipping.clipping_threshold"
        if draft.has(key) and kind in ("norm", "value"):
            draft.say(f"optimizer.clip_{kind}", draft.value(key), key)
        compiled = [k for k in draft.leaves if k.split(".")[0] == "compile_config"]
        if compiled and draft.leaves[compiled[0]].value is not None:
            draft.say("parallelism.compile", True, compiled[0])
        for key in ("train_loader.dataset.hf_name", "train_loader.dataset.remote", "data_remote",
                    "train_loader.dataset.local", "data_local"):  # fmt: skip
            if isinstance(draft.value(key), str):
                draft.say("data.sources", (draft.value(key),), key)
                break
        if "data.sources" not in draft.statements:
            say_each(draft, "data.sources", "train_loader.dataset.streams[].remote")

    def _durations(self, draft: Draft) -> None:
        say_duration(draft, "max_duration", _places(""))
        warmup = {**_places("warmup_"), "dur": "schedule.warmup_fraction"}
        say_duration(draft, "scheduler.t_warmup", warmup)
        say_duration(draft, "scheduler.t_max", _places("decay_"))
        for field, key in (("checkpoint", "save_interval"), ("evaluate", "eval_interval"),
                           ("log", "console_log_interval")):  # fmt: skip
            if key == "eval_interval" and isinstance(draft.value(key), int):
                continue  # a number alone is of epochs
            if draft.value(key) not in (0, "0ba"):
                say_duration(draft, key, dict.fromkeys(("", "ba"), f"interval.{field}"))
        if draft.has("scheduler.t_cooldown"):
            draft.say("schedule.kind", "inverse-sqrt", "scheduler.t_cooldown")

    def _layers(self, draft: Draft) -> None:
        width = number(draft, "model.d_model")
        for key in ("model.expansion_ratio", "model.mlp_ratio"):
            ratio = number(draft, key)
            if width and ratio and not draft.has("model.ffn_config.ffn_hidden_size"):
                draft.say("architecture.ff_width", down(width * ratio), key)
        for key, kind in (
            ("model.attn_config.alibi", "alibi"),
            ("model.alibi", "alibi"),
            ("model.attn_config.rope", "rope"),
            ("model.attn_config.nope", "none"),
        ):
            if draft.true(key):
                draft.say("architecture.position", kind, key)
        if draft.true("model.attn_config.rope") and draft.has("model.attn_config.rope_theta"):
            key = "model.attn_config.rope_theta"
            draft.say("architecture.rope_theta", draft.value(key), key)
        if draft.value("model.attn_config.attn_type") == "multiquery_attention":
            draft.say("architecture.kv_heads", 1, "model.attn_config.attn_type")
        kind = str(draft.value("model.ffn_config.ffn_type", ""))
        if kind.endswith("glu"):
            key = "model.ffn_config.ffn_act_fn.name"
            act = words.activation(word(draft, key, "gelu"))
            gated = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(act, act)
            draft.say("architecture.activation", gated, "model.ffn_config.ffn_type")
        divisor = "model.init_config.init_div_is_residual"
        if draft.has(divisor) and not isinstance(draft.value(divisor), bool):
            draft.unsay("init.depth_scaled_outputs")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """TrainConfig's values, and MPT's where the model is one."""
        found = dict(_FILLS)
        if draft.value("model.name") in ("mpt_causal_lm", "mosaic_gpt"):
            found |= _MPT
            if draft.value("model.name") == "mosaic_gpt" or "init.std" in spec:
                del found["init.method"]  # before it was a table of its own
            if heads := spec.get("architecture.heads"):
                found["architecture.kv_heads"] = heads
            if width := spec.get("architecture.width"):
                found["architecture.ff_width"] = 4 * width
        name = draft.value("optimizer.name")
        if name in ("decoupled_adamw", "adamw"):
            found |= {"optimizer.beta1": 0.9, "optimizer.beta2": 0.95 if name != "adamw" else 0.999,
                      "optimizer.eps": 1e-8}  # fmt: skip
        if spec.get("schedule.kind") in ("cosine", "linear"):
            found["schedule.final_factor"] = 0.0
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 17,
    "precision.compute": "bf16",
    "parallelism.compile": False,
    "interval.checkpoint": 1000,
    "interval.log": 1,
}
_MPT: Mapping[str, Any] = {
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.bias": True,
    "architecture.qk_norm": False,
    "architecture.dropout": 0.0,
    "architecture.attention_dropout": 0.0,
    "init.method": "kaiming_normal_",
    "init.depth_scaled_outputs": True,
}

FORMAT = LlmFoundry()

"""levanter: the YAML of ``train_lm``, and what it reports to W&B."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import (
    Signed,
    down,
    inverted,
    number,
    positive,
    say_each,
    share,
    under,
    word,
)

_FAMILIES = {
    "llama": ("rmsnorm", "rope", True),
    "mistral": ("rmsnorm", "rope", True),
    "mixtral": ("rmsnorm", "rope", True),
    "qwen": ("rmsnorm", "rope", True),
    "qwen3": ("rmsnorm", "rope", True),
    "olmo2": ("rmsnorm", "rope", True),
    "gemma": ("rmsnorm", "rope", True),
    "gpt2": ("layernorm", "learned", False),
}
"""Model -> (norm, position, whether the feed-forward is gated)."""


_FAMILY = re.compile(r"^model\.(?:gpt2|llama|mpt|mistral|backpack)\.")


def _steps(value: Any) -> Any:
    """``warmup: 2000``; below 1 it is a share of the run."""
    number = positive(value)
    return number if number is not None and number >= 1 else None


class Levanter(Signed):
    """Keys that are shares below 1 and steps above: ``warmup``, ``decay``, ``cooldown``."""

    name = "levanter"
    title = "levanter"
    version = "levanter of 2025"
    kinds = frozenset({"yaml", "json"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "model.num_layers": "architecture.layers",
        "model.hidden_dim": "architecture.width",
        "model.num_heads": "architecture.heads",
        "model.num_kv_heads": "architecture.kv_heads",
        "model.head_dim": "architecture.head_dim",
        "model.intermediate_dim": "architecture.ff_width",
        "model.seq_len": "architecture.max_positions",
        "model.max_seq_len": "architecture.max_positions",
        "train_seq_len": "architecture.sequence_length",
        "model.layer_norm_epsilon": "architecture.norm_eps",
        "model.initializer_range": "init.std",
        "model.tie_word_embeddings": "architecture.tied_embeddings",
        "model.use_bias": "architecture.bias",
        "model.attention_bias": "architecture.bias_qkv",
        "model.no_bias": To("architecture.bias", inverted),
        "model.qk_norm": "architecture.qk_norm",
        "model.input_embedding_norm": "architecture.embedding_norm",
        "model.resid_pdrop": "architecture.dropout",
        "model.attn_pdrop": "architecture.attention_dropout",
        "model.sliding_window": "architecture.window",
        "model.logits_soft_cap": "architecture.logit_softcap",
        "model.attn_logit_softcapping": "architecture.attention_softcap",
        "model.rope.theta": "architecture.rope_theta",
        "model.rope_theta": "architecture.rope_theta",
        "model.n_routed_experts": "architecture.experts",
        "model.num_experts_per_tok": "architecture.experts_per_token",
        "model.lbl_coef": "loss.balance_weight",
        "model.rzl_coef": "loss.router_z_weight",
        "z_loss_weight": "loss.z_loss_weight",
        "optimizer.type": To("optimizer.name", words.optimizer, keep=True),
        "optimizer.learning_rate": "optimizer.learning_rate",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.beta1": "optimizer.beta1",
        "optimizer.beta2": "optimizer.beta2",
        "optimizer.epsilon": "optimizer.eps",
        "optimizer.max_grad_norm": "optimizer.clip_norm",
        "optimizer.momentum": "optimizer.momentum",
        "optimizer.min_lr_ratio": "schedule.final_factor",
        "optimizer.warmup_ratio": To("schedule.warmup_fraction", share),
        "trainer.seed": "seed",
        "trainer.num_train_steps": "schedule.steps",
        "trainer.train_batch_size": "batch.global_size",
        "trainer.per_device_parallelism": To("batch.micro_size", positive),
        "trainer.model_axis_size": "parallelism.tensor",
        "trainer.tensor_parallel_size": "parallelism.tensor",
        "trainer.steps_per_eval": "interval.evaluate",
        "trainer.max_eval_batches": "interval.evaluate_batches",
        "data.tokenizer": "data.tokenizer",
        "data.shuffle": To("data.shuffle", lambda v: bool(v)),
    }
    known = (
        frozenset(
            """
            data.* trainer.tracker.* trainer.tracker.* trainer.wandb.* trainer.checkpointer.*
            trainer.axis_resources.* trainer.parameter_axis_resources.* trainer.ray.*
            trainer.distributed.* trainer.jax_config.* trainer.watch.* trainer.mesh.*
            trainer.quantization.* trainer.model_averaging.* trainer.profiler.*
            trainer.progress_watchdog.* trainer.metrics_config.* trainer.mp.* eval_harness.*
            eval_harness initialize_from_hf use_hf_model_config fcm_prob hf_save_path hf_upload
            hf_save_steps hf_save_dtype hf_generation_eos_token_ids update_hessian_steps
            data_seed initialize_from_checkpoint_path epoch log_entropy train_seq_len
            eval_harness_steps out_of_order_data previous_config_diff.* optimizer
            pad_tokenizer_to_match_model hf_repo_id internal_eval.* hf_save_path_override
            adapter.* lora.* doremi.* optimizer.lr_schedule.* optimizer.skip_bad_steps.*
            optimizer.clip_update_norm.* model.rope.* model.rope_scaling.* config_path num_cpus
            num_tpus name output_dir model data trainer
            """.split()
        )
        | under(
            "model",
            "type num_senses sense_intermediate_scale activation_function "
            "scale_attn_by_inverse_layer_idx upcast_attn mlp_scale "
            "embed_pdrop use_flash_attention flash_attention_block_size gradient_checkpointing "
            "gradient_checkpointing_block_size scan_layers hybrid_norm attn_backend "
            "use_layer_norm_weight reference_checkpoint tokenizer rope use_qk_norm "
            "rope_scaling cross_entropy_block_size query_pre_attn_scalar pooler vocab_size "
            "use_attention_sink moe_intermediate_size norm_topk_prob capacity_factor",
        )
        | under(
            "optimizer",
            "warmup decay rewarmup cooldown stable cycle_length cycles haps lr_schedule "
            "weight_decay_modules default_weight_decay_mask skip_bad_steps clip_update_norm "
            "nesterov update_rms_clipping adamc_weight_decay update_interval gamma "
            "clip_threshold hess_interval lr muon_to_adam_lr adam_lr backend_steps rho "
            "min_lr max_lr adam_weight_decay nesterov muon_epsilon max_size_triangular "
            "block_size shampoo_beta precondition_frequency scan_layers ema_params",
        )
        | under(
            "trainer",
            "mp log_dir run_base_dir id log_jaxprs log_xla_hlo crash_on_nan crash_on_inf "
            "batch_axis fsdp_axis tensor_parallel_axes replica_ici_axis_size "
            "replica_dcn_axis_size per_device_eval_parallelism allow_partial_checkpoint "
            "load_checkpoint load_checkpoint_path initialize_from allow_nondivisible_batch_size "
            "require_accelerator shutdown_at_exit profiler profiler_start_step "
            "profiler_num_steps profiler_perfetto_link steps_per_epoch use_explicit_mesh_axes "
            "wandb tracker max_time checkpointer fp8 max_grad_norm learning_rate weight_decay "
            "lr_schedule min_lr_ratio warmup_ratio beta1 beta2 epsilon axis_resources load_debug",
        )
    )
    signs = frozenset(
        {"trainer.num_train_steps", "trainer.train_batch_size", "trainer.steps_per_eval",
         "trainer.axis_resources.*", "trainer.per_device_parallelism", "model.hidden_dim",
         "model.intermediate_dim", "optimizer.min_lr_ratio", "trainer.tensor_parallel_axes",
         "trainer.fsdp_axis", "trainer.model_axis_size", "optimizer.clip_update_norm"}
    )  # fmt: skip

    def spell(self, key: str) -> str:
        """``model.gpt2.num_heads``, as it was in 2023, as ``model.num_heads``."""
        return _FAMILY.sub("model.", super().spell(key))

    def interpret(self, draft: Draft) -> None:
        """Shares and steps, the schedule, formats, switches of the model."""
        self._schedule(draft)
        self._precision(draft)
        for key in ("model.seq_len", "model.max_seq_len"):
            if draft.has(key) and not draft.has("train_seq_len"):
                draft.say("architecture.sequence_length", draft.value(key), key)
        family = _FAMILIES.get(str(draft.value("model.type")))
        act = word(draft, "model.activation_function")
        if act is not None:
            found = words.activation(act)
            if family is not None and family[2]:
                found = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(found, found)
            draft.say("architecture.activation", found, "model.activation_function")
        if family is not None:
            draft.say("architecture.norm", family[0], "model.type")
            draft.say("architecture.position", family[1], "model.type")
        if draft.has("model.use_qk_norm"):
            draft.say("architecture.qk_norm", draft.true("model.use_qk_norm"), "model.use_qk_norm")
        recompute = draft.value("model.gradient_checkpointing")
        if isinstance(recompute, bool):
            found = "full" if recompute else "none"
            draft.say("parallelism.recompute", found, "model.gradient_checkpointing")
        keep = "trainer.checkpointer.keep[].every"
        if draft.has(keep):
            draft.say("interval.checkpoint", draft.value(keep), keep)
        say_each(draft, "data.sources", "data.id")

    def _schedule(self, draft: Draft) -> None:
        kind = word(draft, "optimizer.lr_schedule")
        warmup = draft.value("optimizer.warmup")
        if warmup == 0 or _steps(warmup) is not None:
            draft.say("schedule.warmup_steps", warmup, "optimizer.warmup")
        elif share(warmup) is not None:
            draft.say("schedule.warmup_fraction", warmup, "optimizer.warmup")
        shape = None if kind is None else words.schedule(kind)
        steps = number(draft, "trainer.num_train_steps")
        decay = number(draft, "optimizer.decay")
        cycles = any(draft.has(f"optimizer.{name}") for name in ("cycles", "cycle_length", "haps"))
        stable = number(draft, "optimizer.stable") or number(draft, "optimizer.cooldown")
        if cycles:
            return
        if decay is not None and 0 < decay and decay != 1:
            # [warmup] - [stable] - [decay]
            draft.say("schedule.kind", "wsd", "optimizer.decay")
            if shape is not None:
                draft.say("schedule.decay_kind", shape, "optimizer.lr_schedule")
            length = decay if decay > 1 else decay * steps if steps else None
            if length is not None and length > 1:
                draft.say("schedule.decay_steps", down(length), "optimizer.decay")
        elif shape is not None and not stable:
            draft.say("schedule.kind", shape, "optimizer.lr_schedule")

    def _precision(self, draft: Draft) -> None:
        policy = draft.value("trainer.mp")
        if not isinstance(policy, str):
            return
        found = dict(
            part.split("=", 1) for part in policy.replace(" ", "").split(",") if "=" in part
        )
        formats = {"f32": "fp32", "bf16": "bf16", "f16": "fp16", "bfloat16": "bf16",
                   "float32": "fp32", "float16": "fp16", "half": "bf16",
                   "full": "fp32"}  # fmt: skip
        for name, field in (("c", "compute"), ("compute", "compute"), ("p", "master"),
                            ("params", "master")):  # fmt: skip
            if found.get(name) in formats:
                draft.say(f"precision.{field}", formats[found[name]], "trainer.mp")
        if policy in formats:
            draft.say("precision.compute", formats[policy], "trainer.mp")
            draft.say("precision.master", formats[policy], "trainer.mp")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What the dataclasses fill in."""
        found = dict(_FILLS)
        if any(key.startswith("trainer.") for key in draft.leaves):
            found |= _TRAINER  # else it is a part of a file
        kind = str(draft.value("optimizer.type", "adam"))
        if kind in ("adam", "adamw"):
            found |= _ADAM
        if draft.value("model.type") == "llama":
            found |= _LLAMA
        if "schedule.warmup_steps" not in spec:
            found["schedule.warmup_fraction"] = 0.01
        if spec.get("schedule.kind") == "wsd":
            found["schedule.decay_kind"] = "cosine"
        return found


_FILLS: Mapping[str, Any] = {
    "schedule.kind": "cosine",
    "schedule.final_factor": 0.1,
    "loss.z_loss_weight": 0.0,
    "optimizer.learning_rate": 6e-4,
}
_TRAINER: Mapping[str, Any] = {
    "seed": 0,
    "schedule.steps": 400000,
    "batch.global_size": 512,
    "precision.compute": "fp32",
    "precision.master": "fp32",
    "interval.evaluate": 1000,
}
_ADAM: Mapping[str, Any] = {
    "optimizer.name": "adamw",
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.95,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.1,
    "optimizer.decay_embeddings": False,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "optimizer.clip_norm": 1.0,
}
_LLAMA: Mapping[str, Any] = {
    "architecture.activation": "swiglu",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.tied_embeddings": False,
    "architecture.bias": False,
    "architecture.rope_theta": 10000.0,
    "init.std": 0.02,
}

FORMAT = Levanter()

"""litgpt: the YAML of its pre-training and fine-tuning commands, and their flags."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import (
    Signed,
    class_name,
    positive,
    say_betas,
    say_each,
    under,
)

_MLPS = {"GptNeoxMLP": "gelu", "LLaMAMLP": "swiglu", "GemmaMLP": "geglu", "LLaMAMoE": "swiglu"}
_MODEL: Mapping[str, str | To] = {
    "n_layer": "architecture.layers",
    "n_embd": "architecture.width",
    "n_head": "architecture.heads",
    "n_query_groups": "architecture.kv_heads",
    "head_size": "architecture.head_dim",
    "intermediate_size": "architecture.ff_width",
    "block_size": "architecture.max_positions",
    "vocab_size": "architecture.vocab_size",
    "padded_vocab_size": "architecture.padded_vocab_size",
    "padding_multiple": "architecture.vocab_multiple",
    "norm_class_name": To("architecture.norm", words.norm),
    "_norm_class": To("architecture.norm", words.norm),
    "norm_eps": "architecture.norm_eps",
    "norm_qk": "architecture.qk_norm",
    "parallel_residual": "architecture.parallel_blocks",
    "bias": "architecture.bias",
    "attn_bias": "architecture.bias_qkv",
    "rope_base": "architecture.rope_theta",
    "rotary_percentage": "architecture.rope_fraction",
    "sliding_window_size": "architecture.window",
    "attention_logit_softcapping": "architecture.attention_softcap",
    "final_logit_softcapping": "architecture.logit_softcap",
    "mlp_class_name": To("architecture.activation", lambda v: _MLPS.get(str(v))),
    "_mlp_class": To("architecture.activation", lambda v: _MLPS.get(str(v))),
    "n_expert": To("architecture.experts", positive),
    "n_expert_per_token": To("architecture.experts_per_token", positive),
    "n_shared_expert": "architecture.shared_experts",
    "moe_intermediate_size": "architecture.expert_ff_width",
}
_MODEL_KNOWN = (
    "name hf_config.* scale_embeddings lm_head_bias shared_attention_norm gelu_approximate "
    "rope_condense_ratio rope_adjustments.* rope_interleave rope_local_base_freq rope_indices "
    "norm_qk_type post_attention_norm post_mlp_norm attention_scores_scalar "
    "sliding_window_indices sliding_window_layer_placing sliding_window_layer_stride "
    "sliding_window_block_idx_map_fn n_expert_groups n_topk_groups n_topk_scores_per_group "
    "first_k_dense_replace routed_scaling_factor norm_topk_prob norm_1 norm_2 latent_attention.* "
    "org hf_config latent_attention rope_adjustments"
)


class Litgpt(Signed):
    """``litgpt pretrain --config``; a model is a name, or a table of sizes."""

    name = "litgpt"
    title = "litgpt"
    version = "litgpt 0.5"
    kinds = frozenset({"yaml", "arguments"})
    autos = frozenset({"auto"})
    keys: ClassVar[Mapping[str, str | To]] = {
        **{f"model_config.{key}": to for key, to in _MODEL.items()},
        **{f"model.{key}": to for key, to in _MODEL.items()},
        "seed": "seed",
        "precision": To("precision.compute", words.number_format),
        "devices": "parallelism.devices_per_node",
        "num_nodes": "parallelism.nodes",
        "tokenizer_dir": "data.tokenizer",
        "train.global_batch_size": "batch.global_size",
        "train.micro_batch_size": "batch.micro_size",
        "train.max_steps": "schedule.steps",
        "train.max_tokens": "schedule.tokens",
        "train.epochs": "schedule.epochs",
        "train.lr_warmup_steps": "schedule.warmup_steps",
        "train.min_lr": "schedule.min_learning_rate",
        "train.max_seq_length": "architecture.sequence_length",
        "train.tie_embeddings": "architecture.tied_embeddings",
        "train.max_norm": "optimizer.clip_norm",
        "train.learning_rate": "optimizer.learning_rate",
        "train.weight_decay": "optimizer.weight_decay",
        "train.beta1": "optimizer.beta1",
        "train.beta2": "optimizer.beta2",
        "train.save_interval": "interval.checkpoint",
        "eval.interval": "interval.evaluate",
        "eval.max_iters": "interval.evaluate_batches",
        "optimizer": To("optimizer.name", lambda v: words.optimizer(class_name(v)), keep=True),
        "optimizer.class_path": To(
            "optimizer.name", lambda v: words.optimizer(class_name(v)), keep=True
        ),
        "optimizer.init_args.lr": "optimizer.learning_rate",
        "optimizer.init_args.weight_decay": "optimizer.weight_decay",
        "optimizer.init_args.eps": "optimizer.eps",
        "optimizer.init_args.momentum": "optimizer.momentum",
        "data.init_args.num_workers": "data.workers",
        "data.init_args.seed": "data.seed",
        "data.init_args.val_split_fraction": "data.validation_fraction",
    }
    known = (
        under("model_config", _MODEL_KNOWN)
        | under("model", _MODEL_KNOWN)
        | under("train", "log_interval lr_warmup_fraction max_time max_additional_steps")
        | under(
            "eval",
            "max_new_tokens initial_validation final_validation evaluate_example",
        )
        | frozenset(
            """
            model_name model_config initial_checkpoint_dir checkpoint_dir out_dir resume data
            data.class_path data.init_args.* data.* logger_name quantize lora_r lora_alpha
            lora_dropout lora_query lora_key lora_value lora_projection lora_mlp lora_head galore.*
            optimizer.init_args.* optimizer.* access_token log.* compiler io_dir config
            generate.* adapter_start_layer lr_warmup_steps
            """.split()
        )
    )
    signs = frozenset(
        {"train.lr_warmup_steps", "train.lr_warmup_fraction", "train.tie_embeddings",
         "train.max_tokens", "train.max_seq_length", "eval.initial_validation",
         "eval.final_validation", "eval.max_new_tokens", "model_config.n_query_groups",
         "model.n_query_groups", "model_config.padding_multiple"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Optimizers as classes, data, formats of the weights."""
        say_betas(draft, "optimizer.init_args.betas")
        for key in ("data", "data.class_path"):
            if isinstance(draft.value(key), str):
                draft.say("data.sources", (class_name(draft.value(key)),), key)
        say_each(draft, "data.sources", "data.init_args.data_path")
        precision = str(draft.value("precision", ""))
        if precision.endswith("-true"):
            draft.say("precision.master", words.number_format(precision), "precision")
        elif precision.endswith("-mixed"):
            draft.say("precision.master", "fp32", "precision")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """The signature of ``pretrain.setup`` or of ``finetune.*.setup``."""
        tuned = draft.has("checkpoint_dir") and not draft.has("model_name")
        found: dict[str, Any] = {**_COMMON, **(_FINETUNE if tuned else _PRETRAIN)}
        if not tuned:
            if not {"schedule.steps", "schedule.tokens", "schedule.epochs"} & spec.keys():
                found["schedule.tokens"] = 3_000_000_000_000
            if length := spec.get("architecture.max_positions"):
                found["architecture.sequence_length"] = length
        elif "schedule.steps" not in spec:
            found["schedule.epochs"] = 5.0
        if any(key.startswith(("model_config.", "model.")) for key in draft.leaves):
            found |= _SIZES
            if heads := spec.get("architecture.heads"):
                found["architecture.kv_heads"] = heads
        return found


_COMMON: Mapping[str, Any] = {
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 1e-3,
    "optimizer.weight_decay": 0.01,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.decay_embeddings": True,
    "optimizer.decay_norms": True,
    "optimizer.decay_biases": True,
    "schedule.kind": "cosine",
    "parallelism.nodes": 1,
    "interval.checkpoint": 1000,
    "interval.evaluate_batches": 100,
}
_PRETRAIN: Mapping[str, Any] = {
    "seed": 42,
    "batch.global_size": 512,
    "batch.micro_size": 4,
    "schedule.warmup_steps": 2000,
    "schedule.min_learning_rate": 4e-5,
    "optimizer.clip_norm": 1.0,
    "architecture.tied_embeddings": False,
    "interval.evaluate": 1000,
    "parallelism.compile": True,
}
_FINETUNE: Mapping[str, Any] = {
    "seed": 1337,
    "batch.global_size": 16,
    "batch.micro_size": 1,
    "schedule.warmup_steps": 100,
}
_SIZES: Mapping[str, Any] = {
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "rope",
    "architecture.rope_theta": 10000.0,
    "architecture.rope_fraction": 0.25,
    "architecture.parallel_blocks": True,
    "architecture.bias": True,
    "architecture.qk_norm": False,
    "architecture.vocab_multiple": 512,
}

FORMAT = Litgpt()

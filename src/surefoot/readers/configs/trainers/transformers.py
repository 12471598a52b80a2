"""transformers: config.json of models, TrainingArguments as JSON, YAML or flags."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers import _training_arguments as arguments
from surefoot.readers.configs.trainers._families import FAMILIES, GATED, QK_NORMED
from surefoot.readers.configs.trainers._model_names import MORE

_MODEL_KEYS: Mapping[str, str | To] = {
    "num_hidden_layers": "architecture.layers",
    "n_layer": "architecture.layers",
    "n_layers": "architecture.layers",
    "num_layers": "architecture.layers",
    "hidden_size": "architecture.width",
    "n_embd": "architecture.width",
    "n_embed": "architecture.width",
    "d_model": "architecture.width",
    "word_embed_proj_dim": To("architecture.width", lambda v: None),
    "num_attention_heads": "architecture.heads",
    "n_head": "architecture.heads",
    "n_heads": "architecture.heads",
    "num_heads": "architecture.heads",
    "attention_heads": "architecture.heads",
    "num_key_value_heads": "architecture.kv_heads",
    "num_kv_heads": "architecture.kv_heads",
    "n_head_kv": "architecture.kv_heads",
    "kv_channels": "architecture.head_dim",
    "attention_head_dim": "architecture.head_dim",
    "head_dim": "architecture.head_dim",
    "intermediate_size": "architecture.ff_width",
    "n_inner": "architecture.ff_width",
    "ffn_dim": "architecture.ff_width",
    "vocab_size": "architecture.vocab_size",
    "max_position_embeddings": "architecture.max_positions",
    "n_positions": "architecture.max_positions",
    "max_seq_len": "architecture.max_positions",
    "max_sequence_length": "architecture.max_positions",
    "rms_norm_eps": "architecture.norm_eps",
    "layer_norm_eps": "architecture.norm_eps",
    "layer_norm_epsilon": "architecture.norm_eps",
    "norm_epsilon": "architecture.norm_eps",
    "norm_eps": "architecture.norm_eps",
    "hidden_act": To("architecture.activation", words.activation),
    "hidden_activation": To("architecture.activation", words.activation),
    "activation_function": To("architecture.activation", words.activation),
    "rope_theta": "architecture.rope_theta",
    "rope_parameters.rope_theta": "architecture.rope_theta",
    "rotary_emb_base": "architecture.rope_theta",
    "partial_rotary_factor": "architecture.rope_fraction",
    "rotary_pct": "architecture.rope_fraction",
    "tie_word_embeddings": "architecture.tied_embeddings",
    "attention_bias": "architecture.bias_qkv",
    "qkv_bias": "architecture.bias_qkv",
    "mlp_bias": "architecture.bias",
    "use_bias": "architecture.bias",
    "bias": "architecture.bias",
    "attention_dropout": "architecture.attention_dropout",
    "attn_pdrop": "architecture.attention_dropout",
    "attention_probs_dropout_prob": "architecture.attention_dropout",
    "attn_dropout_prob": "architecture.attention_dropout",
    "resid_pdrop": "architecture.dropout",
    "hidden_dropout": "architecture.dropout",
    "hidden_dropout_prob": "architecture.dropout",
    "dropout": "architecture.dropout",
    "sliding_window": "architecture.window",
    "attn_logit_softcapping": "architecture.attention_softcap",
    "final_logit_softcapping": "architecture.logit_softcap",
    "qk_layernorm": "architecture.qk_norm",
    "use_qk_norm": "architecture.qk_norm",
    "clip_qkv": To("architecture.qk_clip", lambda v: None),
    "use_parallel_residual": "architecture.parallel_blocks",
    "parallel_attn": "architecture.parallel_blocks",
    "num_local_experts": "architecture.experts",
    "num_experts": "architecture.experts",
    "n_routed_experts": "architecture.experts",
    "num_experts_per_tok": "architecture.experts_per_token",
    "num_experts_per_token": "architecture.experts_per_token",
    "moe_topk": "architecture.experts_per_token",
    "moe_k": "architecture.experts_per_token",
    "moe_num_experts": "architecture.experts",
    "n_shared_experts": "architecture.shared_experts",
    "moe_intermediate_size": "architecture.expert_ff_width",
    "router_aux_loss_coef": "loss.balance_weight",
    "aux_loss_alpha": "loss.balance_weight",
    "router_z_loss_coef": "loss.router_z_weight",
    "initializer_range": "init.std",
    "init_std": "init.std",
    "embedding_multiplier": "architecture.embedding_scale",
    "transformers_version": "environment.transformers",
}

_MODEL_KNOWN = frozenset(
    """
    _name_or_path _attn_implementation_autoset add_cross_attention alibi architectures
    attention_probs_dropout_prob attention_multiplier attn_config.* auto_map auto_map.*
    bos_token_id chunk_size_feed_forward classifier_dropout cross_attention_hidden_size
    decoder_start_token_id decoder_sparse_step do_layer_norm_before dtype early_stopping
    embd_pdrop embedding_size eos_token_id expansion_ratio finetuning_task first_k_dense_replace
    forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label id2label.* is_decoder
    is_encoder_decoder kv_lora_rank label2id label2id.* layer_types layernorm_epsilon
    logits_scaling max_length max_window_layers min_length mlp_only_layers model_type
    moe_layer_freq multi_query n_ctx n_group norm_topk_prob num_beams num_nextn_predict_layers
    new_decoder_architecture no_bias norm_type output_attentions output_hidden_states
    output_router_logits pad_token_id prefix pretraining_tp problem_type pruned_heads
    pruned_heads.* q_lora_rank qk_nope_head_dim qk_rope_head_dim quantization_config.*
    query_pre_attn_scalar reorder_and_upcast_attn residual_multiplier rope_interleaved
    rope_local_base_freq rope_parameters rope_parameters.* rope_scaling rope_scaling.*
    routed_scaling_factor scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func
    seq_length shared_expert_intermediate_size slow_but_exact sliding_window_pattern
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    task_specific_params task_specific_params.* tf_legacy_loss tie_encoder_decoder tokenizer_class
    topk_group topk_method torch_dtype torchscript type_vocab_size unk_token_id use_bfloat16
    use_cache use_sliding_window v_head_dim position_embedding_type ep_size
    layer_norm_elementwise_affine enable_bias ffn_config.* init_device
    """.split()
)


_TEXT = re.compile(r"^(?:text|llm|language)_config\.")


class Transformers(ConfigFormat):
    """Model and arguments; W&B's config.yaml of a Trainer holds both."""

    name = "transformers"
    title = "transformers"
    version = arguments.VERSION
    kinds = frozenset({"json", "yaml", "arguments", "dump"})
    rank = 1
    nested = ("deepspeed",)
    against: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "deepspeed": {"": "refuses"},
        # The Trainer sets accelerate up from its own arguments.
        "accelerate": {"precision.": "wins", "batch.": "wins", "parallelism.fsdp": "wins"},
    }
    keys: ClassVar[Mapping[str, str | To]] = {**_MODEL_KEYS, **arguments.KEYS}
    known = _MODEL_KNOWN | MORE | arguments.KNOWN
    signs = frozenset({"architectures", "model_type", "transformers_version"}) | arguments.SIGNS

    def spell(self, key: str) -> str:
        """Flags may be written with hyphens; of a model for images too, its language model."""
        spelled = super().spell(key).replace("-", "_")
        return _TEXT.sub("", spelled, count=1) if "_config." in spelled else spelled

    def score(self, document: Document) -> float:
        """Not tokenizers' or generation's files, nor a Trainer's state, which is a log."""
        if "log_history" in document.leaves or "tokenizer_class" in list(document.leaves)[:1]:
            return 0.0
        if any(key.startswith("log_history") for key in document.leaves):
            return 0.0
        places = (self.target(self.spell(key)) for key in document.leaves)
        fields = {to.field for to in places if to is not None}
        fields -= {"environment.transformers", "name", "seed"}
        return super().score(document) if fields else 0.0

    def interpret(self, draft: Draft) -> None:
        """The model's family, gated activations, the arguments' relations."""
        arguments.interpret(draft)
        family = str(draft.value("model_type", ""))
        act = draft.statements.get("architecture.activation")
        if act is not None and family in GATED:
            gated = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(act.value, act.value)
            key = next(k for k in ("hidden_act", "hidden_activation", "activation_function")
                       if draft.has(k))  # fmt: skip
            draft.say("architecture.activation", gated, key)
        _overrides(draft)
        if draft.has("rms_norm_eps"):
            draft.say("architecture.norm", "rmsnorm", "rms_norm_eps")
        elif draft.has("layer_norm_eps") or draft.has("layer_norm_epsilon"):
            key = "layer_norm_eps" if draft.has("layer_norm_eps") else "layer_norm_epsilon"
            draft.say("architecture.norm", "layernorm", key)
        if family in QK_NORMED:
            draft.say("architecture.qk_norm", True, "model_type")
        if draft.true("alibi") or family in ("bloom", "mpt"):
            key = "alibi" if draft.has("alibi") else "model_type"
            draft.say("architecture.position", "alibi", key)
        elif draft.has("rope_theta") or draft.has("rope_parameters.rope_theta"):
            key = "rope_theta" if draft.has("rope_theta") else "rope_parameters.rope_theta"
            draft.say("architecture.position", "rope", key)
        inner, rotated = draft.number("qk_nope_head_dim"), draft.number("qk_rope_head_dim")
        if inner and rotated:  # latent attention: heads are wider than their share of the model
            draft.say("architecture.head_dim", inner + rotated, "qk_nope_head_dim")
        if draft.has("use_sliding_window") and not draft.true("use_sliding_window"):
            draft.unsay("architecture.window")
        if draft.true("multi_query") and not draft.true("new_decoder_architecture"):
            draft.say("architecture.kv_heads", 1, "multi_query")

    def trainer(self, draft: Draft) -> str:
        """The Trainer, where there are arguments."""
        if any(key in draft.leaves for key in arguments.NO_TRAINER):
            return "accelerate"
        return "transformers Trainer" if _has_arguments(draft) else self.title

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """The family's defaults for a model, TrainingArguments' where there are some."""
        found: dict[str, Any] = {}
        family = str(draft.value("model_type", ""))
        if draft.has("model_type"):
            found |= FAMILIES.get(family, {})
            if heads := spec.get("architecture.heads"):
                found.setdefault("architecture.kv_heads", heads)
            if (width := spec.get("architecture.width")) and family in ("gpt2", "gpt_bigcode"):
                found["architecture.ff_width"] = 4 * width
        if _has_arguments(draft):
            found |= arguments.filled(spec)
        return found


def _overrides(draft: Draft) -> None:
    """``--config_overrides n_embd=8192,n_layer=64`` of the examples that train from scratch."""
    for pair in str(draft.value("config_overrides", "")).split(","):
        name, equals, value = pair.partition("=")
        to = Transformers.keys.get(name.strip())
        if equals and isinstance(to, str) and to.startswith("architecture."):
            draft.say(to, value.strip(), "config_overrides")


def _has_arguments(draft: Draft) -> bool:
    if any(key in draft.leaves for key in arguments.NO_TRAINER):
        return False
    wanted = arguments.SIGNS | {"learning_rate", "max_steps", "gradient_accumulation_steps"}
    return any(key in draft.leaves for key in wanted)


FORMAT = Transformers()

"""The transformers classes that compute just what a decoder computes.

All have rotate-half RoPE and grouped-query attention; they differ in where the norms are and of
which kind, the activation, QK-norm, caps and experts. Not here, since no class has it: LayerNorm
with QK-norm, post-norm, B2T, DeepNorm, no norm at all, and GELU without a gate in a mixture of
experts.
"""

from surefoot.export.families import Family

_ATTENTION = {
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
}
_QK_NORM = {"attention.q_norm": "self_attn.q_norm", "attention.k_norm": "self_attn.k_norm"}
_NORMS = {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"}
_OUTPUT_NORMS = {
    "attention_output_norm": "post_attention_layernorm",
    "feed_forward_output_norm": "post_feedforward_layernorm",
}
_FOUR_NORMS = {
    "attention_norm": "input_layernorm",
    "feed_forward_norm": "pre_feedforward_layernorm",
    **_OUTPUT_NORMS,
}
_GELU = {"feed_forward.w3": "mlp.up_proj", "feed_forward.w2": "mlp.down_proj"}
_SWIGLU = {"feed_forward.w1": "mlp.gate_proj", **_GELU}
_EXPERTS = {
    "feed_forward.router": "mlp.gate",
    "feed_forward.experts.{expert}.w1": "mlp.experts.{expert}.gate_proj",
    "feed_forward.experts.{expert}.w3": "mlp.experts.{expert}.up_proj",
    "feed_forward.experts.{expert}.w2": "mlp.experts.{expert}.down_proj",
}
_PLAIN = {"attention_bias": False, "attention_dropout": 0.0}
_EPS = {"norm_eps": "rms_norm_eps"}
_GEMMA = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_activation": "silu",
}
_GEMMA_DEFAULTS = {
    "rms_norm_eps": 1e-6,
    "head_dim": 256,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "layer_types": ("sliding_attention", "full_attention"),
}

FAMILIES = (
    Family(
        model_type="llama",
        class_name="LlamaForCausalLM",
        keys=_EPS,
        modules=_ATTENTION | _NORMS | _SWIGLU,
        fixed=_PLAIN | {"hidden_act": "silu", "mlp_bias": False},
        defaults={"rms_norm_eps": 1e-6},
    ),
    Family(
        model_type="qwen3",
        class_name="Qwen3ForCausalLM",
        computes={"qk_norm": True},
        keys=_EPS,
        modules=_ATTENTION | _QK_NORM | _NORMS | _SWIGLU,
        fixed=_PLAIN | {"hidden_act": "silu", "use_sliding_window": False},
        defaults={"rms_norm_eps": 1e-6, "head_dim": 128, "num_key_value_heads": 32},
    ),
    Family(
        model_type="arcee",
        class_name="ArceeForCausalLM",
        computes={"activation": "gelu"},
        keys=_EPS,
        modules=_ATTENTION | _NORMS | _GELU,
        fixed=_PLAIN | {"hidden_act": "gelu", "mlp_bias": False},
        defaults={"rms_norm_eps": 1e-5, "hidden_act": "relu2"},
    ),
    Family(
        model_type="apertus",
        class_name="ApertusForCausalLM",
        computes={"activation": "gelu", "qk_norm": True},
        keys=_EPS,
        modules=_ATTENTION
        | _QK_NORM
        | {"attention_norm": "attention_layernorm", "feed_forward_norm": "feedforward_layernorm"}
        | _GELU,
        fixed=_PLAIN | {"hidden_act": "gelu"},
        defaults={
            "rms_norm_eps": 1e-5,
            "hidden_act": "xielu",
            "rope_theta": 12e6,
            "rope_parameters": {"rope_type": "llama3"},
        },
    ),
    Family(
        model_type="stablelm",
        class_name="StableLmForCausalLM",
        computes={"norm": "layernorm"},
        keys={"norm_eps": "layer_norm_eps"},
        modules=_ATTENTION | _NORMS | _SWIGLU,
        fixed={
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "hidden_dropout": 0.0,
            "partial_rotary_factor": 1.0,
            "qk_layernorm": False,
            "use_parallel_residual": False,
            "use_qkv_bias": False,
        },
        defaults={
            "layer_norm_eps": 1e-5,
            "num_key_value_heads": 32,
            "partial_rotary_factor": 0.25,
        },
    ),
    Family(
        model_type="starcoder2",
        class_name="Starcoder2ForCausalLM",
        computes={"norm": "layernorm", "activation": "gelu"},
        keys={"norm_eps": "norm_epsilon"},
        modules=_ATTENTION
        | _NORMS
        | {"feed_forward.w3": "mlp.c_fc", "feed_forward.w2": "mlp.c_proj"},
        fixed={
            "attention_dropout": 0.0,
            "embedding_dropout": 0.0,
            "hidden_act": "gelu",
            "residual_dropout": 0.0,
            "sliding_window": None,
            "use_bias": False,
        },
        defaults={
            "norm_epsilon": 1e-5,
            "hidden_act": "gelu_pytorch_tanh",
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "use_bias": True,
        },
    ),
    Family(
        model_type="olmo2",
        class_name="Olmo2ForCausalLM",
        computes={"norm_placement": "reordered", "qk_norm": True, "qk_norm_over": "width"},
        keys=_EPS,
        modules=_ATTENTION | _QK_NORM | _OUTPUT_NORMS | _SWIGLU,
        fixed=_PLAIN | {"hidden_act": "silu"},
        defaults={"rms_norm_eps": 1e-5},
    ),
    Family(
        model_type="gemma2",
        class_name="Gemma2ForCausalLM",
        computes={"norm_placement": "sandwich"},
        keys=_EPS
        | {
            "attention_softcap": "attn_logit_softcapping",
            "logit_softcap": "final_logit_softcapping",
        },
        modules=_ATTENTION | _FOUR_NORMS | _SWIGLU,
        fixed=_GEMMA,
        defaults=_GEMMA_DEFAULTS
        | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        embedding_scale="sqrt_width",
        gain_offset=1.0,
    ),
    Family(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        computes={"norm_placement": "sandwich", "qk_norm": True},
        keys=_EPS | {"logit_softcap": "final_logit_softcapping"},
        modules=_ATTENTION | _QK_NORM | _FOUR_NORMS | _SWIGLU,
        fixed=_GEMMA | {"attn_logit_softcapping": None, "use_bidirectional_attention": False},
        defaults=_GEMMA_DEFAULTS | {"rope_theta": 1e6},
        embedding_scale="sqrt_width",
        gain_offset=1.0,
        rope_by_layer=True,
    ),
    Family(
        model_type="mixtral",
        class_name="MixtralForCausalLM",
        keys=_EPS | {"experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"},
        modules=_ATTENTION
        | _NORMS
        | {
            "feed_forward.router": "block_sparse_moe.gate",
            **{
                f"feed_forward.experts.{{expert}}.{name}": (
                    f"block_sparse_moe.experts.{{expert}}.{name}"
                )
                for name in ("w1", "w2", "w3")
            },
        },
        fixed={
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "router_jitter_noise": 0.0,
            "sliding_window": None,
        },
        defaults={
            "rms_norm_eps": 1e-5,
            "num_key_value_heads": 8,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "rope_theta": 1e6,
        },
        aliases={"num_experts": "num_local_experts"},
    ),
    Family(
        model_type="qwen3_moe",
        class_name="Qwen3MoeForCausalLM",
        computes={"qk_norm": True},
        keys=_EPS
        | {
            "experts": "num_experts",
            "experts_per_token": "num_experts_per_tok",
            "ff_width": "moe_intermediate_size",
        },
        modules=_ATTENTION | _QK_NORM | _NORMS | _EXPERTS,
        fixed=_PLAIN
        | {
            "decoder_sparse_step": 1,
            "hidden_act": "silu",
            "mlp_only_layers": [],
            "norm_topk_prob": True,
            "use_sliding_window": False,
        },
        defaults={
            "rms_norm_eps": 1e-6,
            "num_key_value_heads": 4,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "norm_topk_prob": False,
        },
        aliases={"num_local_experts": "num_experts"},
    ),
    Family(
        model_type="olmoe",
        class_name="OlmoeForCausalLM",
        computes={"qk_norm": True, "qk_norm_over": "width"},
        keys=_EPS | {"experts": "num_experts", "experts_per_token": "num_experts_per_tok"},
        modules=_ATTENTION | _QK_NORM | _NORMS | _EXPERTS,
        fixed=_PLAIN | {"clip_qkv": None, "hidden_act": "silu", "norm_topk_prob": True},
        defaults={
            "rms_norm_eps": 1e-5,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "norm_topk_prob": False,
        },
        aliases={"num_local_experts": "num_experts"},
    ),
)
"""Every class that can be written and read."""

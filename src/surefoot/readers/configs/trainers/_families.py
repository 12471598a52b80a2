"""What the classes of transformers' model families fill in where config.json is silent."""

from collections.abc import Mapping
from typing import Any

_LLAMA: Mapping[str, Any] = {
    "architecture.norm": "rmsnorm",
    "architecture.norm_eps": 1e-6,
    "architecture.norm_placement": "pre",
    "architecture.activation": "swiglu",
    "architecture.position": "rope",
    "architecture.rope_theta": 10000.0,
    "architecture.tied_embeddings": False,
    "architecture.bias": False,
    "architecture.bias_qkv": False,
    "architecture.qk_norm": False,
    "architecture.attention_dropout": 0.0,
    "architecture.dropout": 0.0,
    "init.method": "normal",
    "init.std": 0.02,
    "init.depth_scaled_outputs": False,
}
_GPT2: Mapping[str, Any] = {
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.bias": True,
    "architecture.bias_qkv": True,
    "architecture.qk_norm": False,
    "architecture.attention_dropout": 0.1,
    "architecture.dropout": 0.1,
    "init.method": "normal",
    "init.std": 0.02,
    "init.depth_scaled_outputs": True,
}
_GEMMA: Mapping[str, Any] = {
    **_LLAMA,
    "architecture.activation": "geglu",
    "architecture.tied_embeddings": True,
}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "architecture.window": 4096, "architecture.kv_heads": 8},
    "mixtral": {**_LLAMA, "architecture.norm_eps": 1e-5, "architecture.rope_theta": 1e6,
                "architecture.kv_heads": 8},
    "qwen2": {**_LLAMA, "architecture.bias_qkv": True},
    "qwen2_moe": {**_LLAMA, "architecture.bias_qkv": True},
    "qwen3": {**_LLAMA, "architecture.qk_norm": True, "architecture.head_dim": 128},
    "qwen3_moe": {**_LLAMA, "architecture.qk_norm": True, "architecture.kv_heads": 4},
    "olmo": {**_LLAMA, "architecture.norm": "layernorm", "architecture.norm_eps": 1e-5},
    "olmo2": {**_LLAMA, "architecture.norm_eps": 1e-5, "architecture.qk_norm": True,
              "architecture.norm_placement": "post"},
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "architecture.norm_placement": "sandwich",
               "architecture.attention_softcap": 50.0, "architecture.logit_softcap": 30.0},
    "gemma3_text": {**_GEMMA, "architecture.norm_placement": "sandwich",
                    "architecture.qk_norm": True, "architecture.rope_theta": 1e6},
    "deepseek_v2": _LLAMA,
    "deepseek_v3": _LLAMA,
    "gpt2": _GPT2,
    "gpt_bigcode": {**_GPT2, "architecture.kv_heads": 1},
    "gpt_neox": {**_GPT2, "architecture.position": "rope", "architecture.rope_fraction": 0.25,
                 "architecture.tied_embeddings": False, "architecture.parallel_blocks": True,
                 "architecture.rope_theta": 10000.0, "architecture.dropout": 0.0,
                 "architecture.attention_dropout": 0.0, "init.depth_scaled_outputs": False},
    "bloom": {**_GPT2, "architecture.position": "alibi", "architecture.embedding_norm": True,
              "architecture.dropout": 0.0, "architecture.attention_dropout": 0.0,
              "init.depth_scaled_outputs": False},
    "opt": {**_GPT2, "architecture.activation": "relu", "architecture.attention_dropout": 0.0,
            "init.depth_scaled_outputs": False},
}  # fmt: skip
"""model_type -> field -> value."""

GATED = frozenset(
    "llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3_text gemma3 olmo "
    "olmo2 olmo3 olmoe deepseek_v2 deepseek_v3 phi3 cohere cohere2 granite granitemoe smollm3 "
    "internlm2 baichuan minicpm minicpm3 glm glm4 glm4_moe gpt_oss llama4_text".split()
)
"""Families whose ``hidden_act`` is the gate of two projections: silu is SwiGLU."""

QK_NORMED = frozenset("qwen3 qwen3_moe olmo2 olmo3 olmoe gemma3_text gemma3 glm4_moe".split())
"""Families that always norm queries and keys."""

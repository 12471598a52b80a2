"""Llama and those named like it: Mistral, Qwen, OLMo 2 and 3, mixtures of experts, and others."""

from surefoot.init.families.family import FAMILIES, Family, Fused

ATTENTION = {
    r"self_attn\.[qk]_proj\.weight": "attention_in",
    r"self_attn\.v_proj\.weight": "attention_value",
    r"self_attn\.o_proj\.weight": "attention_out",
    r"self_attn\.[qkvo]_proj\.bias": "bias",
}
FEED_FORWARD = {
    r"mlp\.(gate|up)_proj\.weight": "feed_forward_in",
    r"mlp\.down_proj\.weight": "feed_forward_out",
    r"mlp\.(gate|up|down)_proj\.bias": "bias",
}
TABLES = {
    r"embed_tokens\.weight": "embedding",
    r"lm_head\.weight": "head",
}
_NORMS = {
    r"layers\.\d+\.(input|post_attention|post_feedforward)_layernorm\.weight": "norm",
    r"self_attn\.[qk]_norm\.weight": "norm",
    r"norm\.weight": "norm",
}
# Experts lie in stacks (expert, out, in), or each in modules of its own in older versions.
_EXPERTS = {
    r"experts\.gate_up_proj": "feed_forward_in",
    r"experts\.down_proj": "feed_forward_out",
    r"experts\.\d+\.(w1|w3|gate_proj|up_proj)\.weight": "feed_forward_in",
    r"experts\.\d+\.(w2|down_proj)\.weight": "feed_forward_out",
    r"(mlp|block_sparse_moe)\.gate\.weight": "router",
}

_PATTERNS = TABLES | ATTENTION | FEED_FORWARD | _NORMS

LLAMA = Family(patterns=_PATTERNS, placement="pre")
MIXTURE = Family(
    patterns=_PATTERNS | _EXPERTS,
    placement="pre",
    fused={r"experts\.gate_up_proj": Fused(("feed_forward_in", "feed_forward_in"))},
)
OLMO2 = Family(patterns=_PATTERNS, placement="reordered")

# Names of their own for the norms, or for the feed-forward block; LayerNorms with biases.
OTHERS = Family(
    patterns=_PATTERNS
    | {
        r"layers\.\d+\.(attention|feedforward)_layernorm\.weight": "norm",
        r"self_attn\.[qk]_layernorm\.norms\.\d+\.weight": "norm",
        r"layers\.\d+\.(input|post_attention)_layernorm\.bias": "bias",
        r"norm\.bias": "bias",
        r"mlp\.c_fc\.weight": "feed_forward_in",
        r"mlp\.c_proj\.weight": "feed_forward_out",
        r"mlp\.c_(fc|proj)\.bias": "bias",
        r"mlp\.act_fn\.alpha_[pn]": "scale",  # of a trained activation
    },
    placement="pre",
)

for name in ("llama", "mistral", "qwen2", "qwen3"):
    FAMILIES.register(name)(LLAMA)
for name in ("mixtral", "qwen3_moe"):
    FAMILIES.register(name)(MIXTURE)
for name in ("olmo2", "olmo3"):
    FAMILIES.register(name)(OLMO2)
for name in ("arcee", "apertus", "stablelm", "starcoder2"):
    FAMILIES.register(name)(OTHERS)

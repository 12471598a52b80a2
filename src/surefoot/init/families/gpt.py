"""GPT-2, GPT-J and GPT-NeoX (Pythia): biases everywhere, and fused query, key and value."""

from surefoot.init.families.family import FAMILIES, Family, Fused

_QKV = ("attention_in", "attention_in", "attention_value")

GPT2 = Family(
    patterns={
        r"wte\.weight": "embedding",
        r"wpe\.weight": "position",
        r"attn\.c_attn\.weight": "attention_in",
        r"attn\.c_proj\.weight": "attention_out",
        r"mlp\.c_fc\.weight": "feed_forward_in",
        r"mlp\.c_proj\.weight": "feed_forward_out",
        r"(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.bias": "bias",
        r"(ln_1|ln_2|ln_f)\.weight": "norm",
        r"(ln_1|ln_2|ln_f)\.bias": "bias",
        r"lm_head\.weight": "head",
    },
    placement="pre",
    fused={r"attn\.c_attn\.weight": Fused(_QKV)},
)
GPTJ = Family(
    patterns={
        r"wte\.weight": "embedding",
        r"attn\.[qk]_proj\.weight": "attention_in",
        r"attn\.v_proj\.weight": "attention_value",
        r"attn\.out_proj\.weight": "attention_out",
        r"mlp\.fc_in\.weight": "feed_forward_in",
        r"mlp\.fc_out\.weight": "feed_forward_out",
        r"mlp\.fc_(in|out)\.bias": "bias",
        r"(ln_1|ln_f)\.weight": "norm",
        r"(ln_1|ln_f)\.bias": "bias",
        r"lm_head\.weight": "head",
        r"lm_head\.bias": "bias",
    },
    placement="pre",
)
GPT_NEOX = Family(
    patterns={
        r"embed_in\.weight": "embedding",
        r"attention\.query_key_value\.weight": "attention_in",
        r"attention\.dense\.weight": "attention_out",
        r"mlp\.dense_h_to_4h\.weight": "feed_forward_in",
        r"mlp\.dense_4h_to_h\.weight": "feed_forward_out",
        r"attention\.(query_key_value|dense)\.bias": "bias",
        r"mlp\.(dense_h_to_4h|dense_4h_to_h)\.bias": "bias",
        r"(input_layernorm|post_attention_layernorm|final_layer_norm)\.weight": "norm",
        r"(input_layernorm|post_attention_layernorm|final_layer_norm)\.bias": "bias",
        r"(lm_head|embed_out)\.weight": "head",
    },
    placement="pre",
    # The query, key and value of a head lie together, head after head.
    fused={r"attention\.query_key_value\.weight": Fused(_QKV, "num_attention_heads")},
)

FAMILIES.register("gpt2")(GPT2)
FAMILIES.register("gptj")(GPTJ)
FAMILIES.register("gpt_neox")(GPT_NEOX)

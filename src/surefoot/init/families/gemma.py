"""Gemma 1, 2 and 3: norms that multiply by 1 + gain, embeddings multiplied by sqrt(width)."""

from surefoot.init.families.family import FAMILIES, Family
from surefoot.init.families.llama import ATTENTION, FEED_FORWARD, TABLES

# A gain of 1 would double what the norm gives: in these models it starts at 0.
_NORMS = {
    r"layers\.\d+\.(input|post_attention|pre_feedforward|post_feedforward)_layernorm\.weight": (
        "norm_offset"
    ),
    r"self_attn\.[qk]_norm\.weight": "norm_offset",
    r"norm\.weight": "norm_offset",
}
_PATTERNS = TABLES | ATTENTION | FEED_FORWARD | _NORMS

GEMMA = Family(patterns=_PATTERNS, placement="pre", scales_embedding=True)
SANDWICH = Family(patterns=_PATTERNS, placement="sandwich", scales_embedding=True)

FAMILIES.register("gemma")(GEMMA)
for name in ("gemma2", "gemma3_text"):
    FAMILIES.register(name)(SANDWICH)

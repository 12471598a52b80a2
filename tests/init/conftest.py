"""Tiny models: surefoot's decoder, and real classes of transformers."""

import pytest

from surefoot.model import Decoder
from surefoot.recipe import Architecture

SHAPE = {"layers": 3, "width": 64, "heads": 4, "vocab_size": 300, "sequence_length": 16}
LLAMA_LIKE = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 300,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WITHOUT_HEAD_SIZE = {k: v for k, v in LLAMA_LIKE.items() if k != "head_dim"}
GPT_LIKE = {
    "n_embd": 64,
    "n_layer": 3,
    "n_head": 4,
    "vocab_size": 300,
    "n_positions": 200,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {
    "num_local_experts": 3,
    "num_experts": 3,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
}
FAMILIES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA_LIKE | {"mlp_bias": True}),
    "mistral": ("MistralConfig", "MistralForCausalLM", LLAMA_LIKE),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", LLAMA_LIKE),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", LLAMA_LIKE | {"attention_bias": True}),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", LLAMA_LIKE),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", LLAMA_LIKE),
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM", LLAMA_LIKE),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", LLAMA_LIKE),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM", LLAMA_LIKE),
    "arcee": ("ArceeConfig", "ArceeForCausalLM", LLAMA_LIKE),
    "apertus": ("ApertusConfig", "ApertusForCausalLM", WITHOUT_HEAD_SIZE),
    "stablelm": (
        "StableLmConfig",
        "StableLmForCausalLM",
        WITHOUT_HEAD_SIZE | {"qk_layernorm": True},
    ),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", WITHOUT_HEAD_SIZE),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", LLAMA_LIKE | EXPERTS),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", LLAMA_LIKE | EXPERTS),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT_LIKE),
    "gptj": ("GPTJConfig", "GPTJForCausalLM", GPT_LIKE | {"rotary_dim": 8}),
    "gpt_neox": (
        "GPTNeoXConfig",
        "GPTNeoXForCausalLM",
        {k: v for k, v in WITHOUT_HEAD_SIZE.items() if k != "num_key_value_heads"},
    ),
}


@pytest.fixture
def make_decoder():
    def make(**changes) -> Decoder:
        return Decoder(Architecture(**(SHAPE | changes)))

    return make


@pytest.fixture(scope="session")
def make_foreign():
    """Family name to a fresh model of the class."""
    transformers = pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

    def make(family: str, **changes):
        config, model, settings = FAMILIES[family]
        made = getattr(transformers, config)(**(settings | changes))
        return getattr(transformers, model)(made)

    return make

"""Which transformers class computes exactly what an architecture computes, and under which names.

Every class below is pre-norm with rotate-half RoPE and grouped-query attention; they differ in the
norm, the activation and QK-norm. LayerNorm with QK-norm (an RMSNorm per head) has no counterpart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.errors import UsageError
from surefoot.recipe import Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A transformers class.

    Attributes:
        model_type: its name in config.json.
        class_name: the class.
        norm, activation, qk_norm: what it computes, in the words of a recipe.
        eps_key: the setting that holds norm_eps.
        modules: module name in a Decoder's block -> in the class's block.
        fixed: settings that must have this value for the class to compute just that.
        defaults: what the class assumes for a setting that config.json leaves out, where that is
            not the fixed value.
    """

    model_type: str
    class_name: str
    norm: Literal["rmsnorm", "layernorm"]
    activation: Literal["swiglu", "gelu"]
    qk_norm: bool
    eps_key: str
    modules: Mapping[str, str]
    fixed: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def names(self, architecture: Architecture) -> Iterator[tuple[str, str]]:
        """Pairs (parameter of a Decoder, tensor of the class); the head's only if it is untied."""
        yield "embedding.weight", "model.embed_tokens.weight"
        for layer in range(architecture.layers):
            for ours, theirs in self.modules.items():
                yield f"layers.{layer}.{ours}.weight", f"model.layers.{layer}.{theirs}.weight"
        yield "norm.weight", "model.norm.weight"
        if not architecture.tied_embeddings:
            yield "head.weight", "lm_head.weight"

    def zeros(self, architecture: Architecture) -> Iterator[str]:
        """Tensors of the class that are zero in a Decoder: the biases of LayerNorm."""
        if self.norm == "layernorm":
            for _, theirs in self.names(architecture):
                if "norm." in theirs:
                    yield theirs.removesuffix("weight") + "bias"


_ATTENTION = {
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
}
_QK_NORM = {"attention.q_norm": "self_attn.q_norm", "attention.k_norm": "self_attn.k_norm"}
_NORMS = {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"}
_GELU = {"feed_forward.w3": "mlp.up_proj", "feed_forward.w2": "mlp.down_proj"}
_SWIGLU = {"feed_forward.w1": "mlp.gate_proj", **_GELU}
_PLAIN = {"attention_bias": False, "attention_dropout": 0.0}

FAMILIES = (
    Family(
        model_type="llama",
        class_name="LlamaForCausalLM",
        norm="rmsnorm",
        activation="swiglu",
        qk_norm=False,
        eps_key="rms_norm_eps",
        modules=_ATTENTION | _NORMS | _SWIGLU,
        fixed=_PLAIN | {"hidden_act": "silu", "mlp_bias": False},
        defaults={"rms_norm_eps": 1e-6},
    ),
    Family(
        model_type="qwen3",
        class_name="Qwen3ForCausalLM",
        norm="rmsnorm",
        activation="swiglu",
        qk_norm=True,
        eps_key="rms_norm_eps",
        modules=_ATTENTION | _QK_NORM | _NORMS | _SWIGLU,
        fixed=_PLAIN | {"hidden_act": "silu", "use_sliding_window": False},
        defaults={"rms_norm_eps": 1e-6, "head_dim": 128, "num_key_value_heads": 32},
    ),
    Family(
        model_type="arcee",
        class_name="ArceeForCausalLM",
        norm="rmsnorm",
        activation="gelu",
        qk_norm=False,
        eps_key="rms_norm_eps",
        modules=_ATTENTION | _NORMS | _GELU,
        fixed=_PLAIN | {"hidden_act": "gelu", "mlp_bias": False},
        defaults={"rms_norm_eps": 1e-5, "hidden_act": "relu2"},
    ),
    Family(
        model_type="apertus",
        class_name="ApertusForCausalLM",
        norm="rmsnorm",
        activation="gelu",
        qk_norm=True,
        eps_key="rms_norm_eps",
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
        norm="layernorm",
        activation="swiglu",
        qk_norm=False,
        eps_key="layer_norm_eps",
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
        norm="layernorm",
        activation="gelu",
        qk_norm=False,
        eps_key="norm_epsilon",
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
)


def family_of(architecture: Architecture) -> Family:
    """The class that represents an architecture; UsageError names the field that has none."""
    a = architecture
    for family in FAMILIES:
        if (family.norm, family.activation, family.qk_norm) == (a.norm, a.activation, a.qk_norm):
            return family
    raise UsageError(
        f'architecture.qk_norm = true with architecture.norm = "{a.norm}": no transformers class '
        "has RMSNorm on queries and keys beside LayerNorm, so this model cannot be exported; train "
        'with architecture.norm = "rmsnorm" or architecture.qk_norm = false'
    )


def family_named(model_type: object) -> Family:
    """The class of a config.json's model_type; UsageError lists those that can be read."""
    for family in FAMILIES:
        if family.model_type == model_type:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise UsageError(f"model_type = {model_type!r}: expected one of {known}")

"""Which transformers class computes exactly what a plain architecture computes.

The classes themselves are a table in :mod:`surefoot.export.classes`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.errors import UsageError
from surefoot.recipe import Architecture

_COMPUTES: Mapping[str, Any] = {
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "activation": "swiglu",
    "qk_norm": False,
    "qk_norm_over": "head",
    "attention_softcap": None,
    "logit_softcap": None,
    "experts": None,
}
"""The fields that tell classes apart, with the value of a plain one. What else an architecture has
is a size, or folded into the weights."""
KEYS: Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "ff_width": "intermediate_size",
    "vocab_size": "vocab_size",
    "sequence_length": "max_position_embeddings",
}
"""Sizes by the names that all classes have for them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """A transformers class.

    Attributes:
        model_type: its name in config.json.
        class_name: the class.
        computes: what it computes, in the words of a recipe, where that is not what a Llama does.
        keys: field of an architecture -> setting of config.json that holds it, beside
            :data:`KEYS`. A field that tells classes apart and has a setting may have any value,
            but for ``experts``, which a class has or has not.
        modules: module name in a Decoder's block -> in the class's block.
        fixed: settings that must have this value for the class to compute just that.
        defaults: what the class assumes for a setting that config.json leaves out, where that is
            not the fixed value.
        aliases: another name of a setting -> the setting, for what the library may have written.
        embedding_scale: the factor that the class has behind its embedding.
        gain_offset: what the class adds to the gains of its norms (Gemma: 1).
        rope_by_layer: whether the rope_parameters are a table by the kind of attention.
    """

    model_type: str
    class_name: str
    computes: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str]
    modules: Mapping[str, str]
    fixed: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    embedding_scale: Literal["sqrt_width"] | float = 1.0
    gain_offset: float = 0.0
    rope_by_layer: bool = False

    def conflicts(self, architecture: Architecture) -> Iterator[str]:
        """The fields of a plain architecture that the class has not, each with what it has."""
        computed = self.computed
        for name in _COMPUTES:
            got, there = getattr(architecture, name), computed[name]
            if name == "qk_norm_over" and not (architecture.qk_norm and computed["qk_norm"]):
                continue
            if name == "experts":
                if (got is None) == ("experts" in self.keys):
                    there = "some" if got is None else "none"
                    yield f"architecture.experts = {_word(got)} (there {there})"
            elif name not in self.keys and got != there:
                yield f"architecture.{name} = {_word(got)} (there {_word(there)})"

    @property
    def computed(self) -> dict[str, Any]:
        """Every field that tells classes apart, with what the class has."""
        return {**_COMPUTES, **self.computes}

    @property
    def all_keys(self) -> dict[str, str]:
        """Field of an architecture -> setting of config.json."""
        return {**KEYS, **self.keys}

    def names(self, architecture: Architecture) -> Iterator[tuple[str, str]]:
        """Pairs (parameter of a Decoder, tensor of the class); the head's only if it is untied."""
        yield "embedding.weight", "model.embed_tokens.weight"
        for layer in range(architecture.layers):
            for ours, theirs in self.modules.items():
                for expert in range(architecture.experts or 0) if "{expert}" in ours else (0,):
                    yield (
                        f"layers.{layer}.{ours}.weight".replace("{expert}", str(expert)),
                        f"model.layers.{layer}.{theirs}.weight".replace("{expert}", str(expert)),
                    )
        yield "norm.weight", "model.norm.weight"
        if not architecture.tied_embeddings:
            yield "head.weight", "lm_head.weight"

    def offset(self, ours: str) -> float:
        """What the class adds to a parameter of a Decoder as it is stored."""
        return self.gain_offset if ours.endswith("norm.weight") else 0.0

    def zeros(self, architecture: Architecture) -> Iterator[str]:
        """Tensors of the class that are zero in a Decoder: the biases of LayerNorm."""
        if self.computed["norm"] == "layernorm":
            for _, theirs in self.names(architecture):
                if "norm." in theirs:
                    yield theirs.removesuffix("weight") + "bias"


def family_of(architecture: Architecture, families: tuple[Family, ...]) -> Family:
    """The class that computes a plain architecture, the first if there are several.

    Args:
        architecture: as :func:`surefoot.model.folded_architecture` gives it.
        families: what to choose from.

    Raises:
        UsageError: if none does; it names the nearest classes, and every field in their way.
    """
    conflicts = {family: list(family.conflicts(architecture)) for family in families}
    fewest = min(map(len, conflicts.values()))
    nearest = [family for family in families if len(conflicts[family]) == fewest]
    if fewest == 0:
        return nearest[0]
    ways = "; ".join(
        f"of {family.class_name}, {' and '.join(conflicts[family])}" for family in nearest[:3]
    )
    raise UsageError(
        "no transformers class computes this model, so it cannot be exported. In the way of the "
        f"nearest: {ways}"
    )


def family_named(model_type: object, families: tuple[Family, ...]) -> Family:
    """The class of a config.json's model_type; UsageError lists those that can be read."""
    for family in families:
        if family.model_type == model_type:
            return family
    known = ", ".join(family.model_type for family in families)
    raise UsageError(f"model_type = {model_type!r}: expected one of {known}")


def _word(value: object) -> str:
    """As a recipe spells it."""
    if isinstance(value, str):
        return f'"{value}"'
    return {"None": "none", "True": "true", "False": "false"}.get(str(value), str(value))

"""Read a transformers folder into what makes a Decoder; nothing is unpickled."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from surefoot.errors import UsageError
from surefoot.export.classes import FAMILIES
from surefoot.export.families import Family, family_named
from surefoot.export.weights import read_weights
from surefoot.recipe import Architecture


def from_transformers(folder: Path) -> tuple[Architecture, dict[str, Tensor], Path]:
    """The architecture, the state dict of ``Decoder(architecture)`` and the tokenizer's path.

    Reads config.json, model.safetensors (or the shards that model.safetensors.index.json names)
    and tokenizer.json of the classes in :data:`surefoot.export.FAMILIES`. Weights are
    converted to fp32.

    Args:
        folder: what ``save_pretrained`` or :func:`surefoot.export.to_transformers` wrote.

    Raises:
        UsageError: if a file is missing or damaged, the class is another, a setting has no
            counterpart (all such are named), or the weights do not fit the configuration.
    """
    folder = Path(folder)
    architecture, family = read_config(folder / "config.json")
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise UsageError(
            f"{folder} has no tokenizer.json: write it with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    return architecture, read_weights(folder, family, architecture), tokenizer


def read_config(path: Path) -> tuple[Architecture, Family]:
    """The architecture that a config.json describes, and its class; errors as above."""
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        folder = path.parent
        if (folder / "spec.toml").exists():
            raise UsageError(
                f"{folder} is a run: type surefoot export {folder} --to transformers --out DIR, "
                "and use DIR"
            ) from None
        raise UsageError(
            f"{path}: no such file; expected a folder of the transformers library"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path}: expected a JSON object, got {type(config).__name__}")
    try:
        family = family_named(config.get("model_type"), FAMILIES)
        return _architecture(config, family), family
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except KeyError as error:
        raise UsageError(f"{path}: the setting {error.args[0]!r} is missing") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {field} = {first['input']!r}: {first['msg']}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: a setting of another kind than expected: {error}") from None


def _architecture(config: Mapping[str, Any], family: Family) -> Architecture:
    aliased = {key: config[name] for name, key in family.aliases.items() if name in config}
    settings = {**family.fixed, **family.defaults, **aliased, **config}
    rope = _rope(config, family)
    settings |= {key: rope[key] for key in ("rope_theta", "partial_rotary_factor") if key in rope}
    unsupported = list(_unsupported(settings, rope, family))
    if unsupported:
        raise UsageError(f"surefoot's decoder has no counterpart of {'; '.join(unsupported)}")
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    optional = {"kv_heads", "attention_softcap", "logit_softcap"}
    sizes = {
        field: settings.get(key) if field in optional else settings[key]
        for field, key in family.all_keys.items()
    }
    architecture = Architecture(
        **{**family.computed, **sizes},
        rope_theta=settings.get("rope_theta") or 10000.0,
        tied_embeddings=settings.get("tie_word_embeddings", False),
        embedding_scale=family.embedding_scale,
        head_scale=1.0,
    )
    size = settings.get("head_dim") or architecture.head_size
    if width % heads or size != architecture.head_size or size % 2:
        raise UsageError(
            f"head_dim = {size}, hidden_size = {width}, num_attention_heads = {heads}: expected "
            "an even head_dim of hidden_size / num_attention_heads"
        )
    if settings.get("query_pre_attn_scalar", size) != size:
        raise UsageError(
            f"query_pre_attn_scalar = {settings['query_pre_attn_scalar']}: expected the head size, "
            f"{size}"
        )
    if heads % architecture.key_value_heads:
        raise UsageError(
            f"num_key_value_heads = {architecture.key_value_heads} does not divide "
            f"num_attention_heads = {heads}"
        )
    if architecture.experts is not None and architecture.experts_per_token > architecture.experts:
        raise UsageError(
            f"num_experts_per_tok = {architecture.experts_per_token} exceeds the number of "
            f"experts, {architecture.experts}"
        )
    return architecture


def _rope(config: Mapping[str, Any], family: Family) -> Mapping[str, Any]:
    # Version 4 wrote rope_theta and, where there was any, rope_scaling; version 5 one table, of
    # some classes by the kind of attention, of which full attention alone is used here.
    given = config.get("rope_scaling") or config.get("rope_parameters")
    if family.rope_by_layer and given and "full_attention" in given:
        given = given["full_attention"]
    rope: Mapping[str, Any] = given or family.defaults.get("rope_parameters", {})
    return rope


def _unsupported(
    settings: Mapping[str, Any], rope: Mapping[str, Any], family: Family
) -> Iterator[str]:
    fixed = {"partial_rotary_factor": 1.0, "quantization_config": None, **family.fixed}
    for key, expected in fixed.items():
        value = settings.get(key, expected)
        if value != expected:
            yield f"{key} = {value!r} (only {expected!r})"
    if any(isinstance(value, Mapping) for value in rope.values()):
        yield "rope_parameters that differ between layers"
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        yield f"rope_scaling of type {kind!r}"
    if set(settings.get("layer_types") or ()) - {"full_attention"}:
        yield "layer_types other than full_attention"

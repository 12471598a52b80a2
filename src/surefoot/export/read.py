"""Read a transformers folder into what makes a Decoder; nothing is unpickled."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from surefoot.errors import UsageError
from surefoot.export.families import Family, family_named
from surefoot.export.weights import read_weights
from surefoot.recipe import Architecture


def from_transformers(folder: Path) -> tuple[Architecture, dict[str, Tensor], Path]:
    """The architecture, the state dict of ``Decoder(architecture)`` and the tokenizer's path.

    Reads config.json, model.safetensors (or the shards that model.safetensors.index.json names)
    and tokenizer.json of the classes in :data:`surefoot.export.families.FAMILIES`. Weights are
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
        raise UsageError(
            f"{path}: no such file; expected a folder of the transformers library"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(f"{path}: expected a JSON object, got {type(config).__name__}")
    try:
        family = family_named(config.get("model_type"))
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
    settings = {**family.fixed, **family.defaults, **config}
    # Version 4 wrote rope_theta and, where there was any, rope_scaling; version 5 one table.
    given = config.get("rope_scaling") or config.get("rope_parameters")
    rope = given or family.defaults.get("rope_parameters", {})
    settings |= {key: rope[key] for key in ("rope_theta", "partial_rotary_factor") if key in rope}
    unsupported = list(_unsupported(settings, rope, family))
    if unsupported:
        raise UsageError(f"surefoot's decoder has no counterpart of {'; '.join(unsupported)}")
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    architecture = Architecture(
        layers=settings["num_hidden_layers"],
        width=width,
        heads=heads,
        kv_heads=settings.get("num_key_value_heads"),
        ff_width=settings["intermediate_size"],
        vocab_size=settings["vocab_size"],
        sequence_length=settings["max_position_embeddings"],
        norm=family.norm,
        norm_eps=settings[family.eps_key],
        activation=family.activation,
        rope_theta=settings.get("rope_theta") or 10000.0,
        tied_embeddings=settings.get("tie_word_embeddings", False),
        qk_norm=family.qk_norm,
        embedding_scale=1.0,
        head_scale=1.0,
    )
    size = settings.get("head_dim") or architecture.head_size
    if width % heads or size != architecture.head_size or size % 2:
        raise UsageError(
            f"head_dim = {size}, hidden_size = {width}, num_attention_heads = {heads}: expected "
            "an even head_dim of hidden_size / num_attention_heads"
        )
    if heads % architecture.key_value_heads:
        raise UsageError(
            f"num_key_value_heads = {architecture.key_value_heads} does not divide "
            f"num_attention_heads = {heads}"
        )
    return architecture


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

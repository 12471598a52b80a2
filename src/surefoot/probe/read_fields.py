"""surefoot's decoder from a config.json whose class is not to be had: the fields it understands."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from surefoot.errors import ConfigError, RecipeError
from surefoot.probe.field_notes import notes_on
from surefoot.readers import read_configs
from surefoot.recipe import Architecture, Init
from surefoot.recipe.together import check_architecture
from surefoot.records import TrainSpec

_LENGTH = 2048
_NEEDED = {"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
           "vocab_size": "vocab_size"}  # fmt: skip
_TAKEN = ("kv_heads", "ff_width", "norm", "norm_eps", "rope_theta", "tied_embeddings", "qk_norm",
          "attention_softcap", "logit_softcap", "embedding_scale", "embedding_norm", "experts",
          "experts_per_token")  # fmt: skip
"""Fields that a decoder takes over as they are."""
_ACTIVATIONS = {"swiglu": "swiglu", "geglu": "swiglu", "reglu": "swiglu", "gelu": "gelu",
                "relu": "gelu", "silu": "gelu"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What a config.json says of a decoder.

    Attributes:
        architecture: with what was understood.
        init: normal weights of the stated standard deviation.
        rotary: whether its positions are rotary.
        notes: what was used and what could not be.
    """

    architecture: Architecture
    init: Init
    rotary: bool
    notes: tuple[str, ...]


def decoder_of(path: Path, settings: Mapping[str, Any]) -> Fields:
    """Read the fields of a decoder.

    Args:
        path: the file.
        settings: what it holds, for the name of its family.

    Raises:
        ConfigError: a needed size is missing or impossible.
    """
    configs = read_configs(path)
    spec = configs.spec
    a = spec.architecture
    missing = [f"{key} ({name})" for name, key in _NEEDED.items() if getattr(a, name) is None]
    if missing:
        raise ConfigError(f"{path}: the model cannot be built: it states no {', '.join(missing)}")
    used: dict[str, Any] = {name: getattr(a, name) for name in (*_NEEDED, *_TAKEN)}
    given = {name: value for name, value in used.items() if value is not None}
    if a.experts and a.expert_ff_width:
        given["ff_width"] = a.expert_ff_width
    elif a.ff_width is None and isinstance(settings.get("d_ff"), int):
        given["ff_width"] = settings["d_ff"]
    placement = _placement(a.norm_placement, str(settings.get("model_type", "")))
    given["norm_placement"] = placement
    given["activation"] = _ACTIVATIONS.get(a.activation or "swiglu", "swiglu")
    given["sequence_length"] = a.sequence_length or a.max_positions or _LENGTH
    if a.norm not in ("rmsnorm", "layernorm"):
        given.pop("norm", None)
    given.setdefault("qk_norm", False)
    architecture = _built(given, path)
    return Fields(
        architecture=architecture,
        init=_init(spec),
        rotary=a.position in (None, "rope"),
        notes=tuple(notes_on(spec, architecture, settings)),
    )


def _built(given: Mapping[str, Any], path: Path) -> Architecture:
    try:
        architecture = Architecture(**given)
        check_architecture(architecture)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        shown = repr(first.get("input"))[:40]
        raise ConfigError(f"{path}: {name} = {shown}: {first['msg']}") from None
    except (ValueError, RecipeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return architecture


def _init(spec: TrainSpec) -> Init:
    std = spec.init.std
    if std is None or not 0 < std < float("inf"):
        std = 0.02
    return Init(
        method="gpt2",
        std=std,
        embedding_std=spec.init.embedding_std or std,
        depth_scaled_outputs=bool(spec.init.depth_scaled_outputs),
    )


def _placement(stated: str | None, family: str) -> str:
    """As a recipe names it; the readers call OLMo 2's norm of the output a post-norm."""
    if family.startswith("olmo") and stated == "post":
        return "reordered"
    known = ("pre", "post", "sandwich", "peri", "reordered", "deepnorm")
    return stated if stated in known else "pre"

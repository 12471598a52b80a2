"""surefoot's decoder from a config.json whose class is not to be had: the fields it understands."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from surefoot.errors import ConfigError, RecipeError
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
_ACTIVATIONS = {"swiglu": "swiglu", "geglu": "swiglu", "reglu": "swiglu", "gelu": "gelu",
                "relu": "gelu", "silu": "gelu"}  # fmt: skip
_HARMLESS = ("norm_placement", "position", "dropout", "attention_dropout", "sequence_length",
             "max_positions", "activation", "head_dim")  # fmt: skip


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
        notes=tuple(_notes(spec, architecture, settings)),
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


def _notes(spec: TrainSpec, built: Architecture, settings: Mapping[str, Any]) -> list[str]:
    family = settings.get("model_type")
    name = f"{family!r:.40}" if family is not None else "none stated"
    stated = {path.partition(".")[2]: value for path, value in spec.stated().items()
              if path.startswith("architecture.")}  # fmt: skip
    used = [key for key in stated if key in (*_NEEDED, *_TAKEN, "norm_placement", "activation")]
    used += ["initializer_range"] if spec.init.std is not None else []
    open_ = [
        f"{key} = {value}"
        for key, value in stated.items()
        if key not in (*_NEEDED, *_TAKEN, *_HARMLESS) and value not in (False, 0, 0.0)
    ]
    if stated.get("head_dim") not in (None, built.head_size):
        open_.append(f"head_dim = {stated['head_dim']} ({built.head_size} was taken)")
    if stated.get("position") not in (None, "rope"):
        open_.append(f"position = {stated['position']} (rotary was taken)")
    if stated.get("activation") not in (None, built.activation):
        open_.append(f"activation = {stated['activation']} ({built.activation} was taken)")
    notes = [f"model_type {name}: no class of that family is known here; used: {', '.join(used)}"]
    if open_:
        notes.append(f"could not be used: {', '.join(open_)}")
    return notes

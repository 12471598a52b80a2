"""What was made of a config.json of an unknown family, in the words of the file."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from surefoot.recipe import Architecture
from surefoot.records import TrainSpec

_MODEL = {"width", "layers", "heads", "kv_heads", "ff_width", "expert_ff_width", "vocab_size",
          "norm", "norm_eps", "norm_placement", "rope_theta", "tied_embeddings", "qk_norm",
          "attention_softcap", "logit_softcap", "embedding_scale", "embedding_norm", "experts",
          "experts_per_token", "sequence_length", "max_positions"}  # fmt: skip
"""Fields that the decoder has."""
_NO_PART = {"dropout", "attention_dropout"}
"""Fields without a part in the first step."""
_CHECKED = {"activation": "activation", "position": "position", "head_dim": "head_size"}
"""Fields of which a nearby value may have been taken."""
_ABOUT = {"model_type", "architectures", "transformers_version", "torch_dtype", "dtype",
          "use_cache", "_name_or_path", "bos_token_id", "eos_token_id", "pad_token_id", "auto_map",
          "is_decoder", "pretraining_tp"}  # fmt: skip
"""Keys that are about files, tokens and generating, not about weights."""
_MOST = 24
"""Keys named; of more, how many."""


def notes_on(spec: TrainSpec, built: Architecture, settings: Mapping[str, Any]) -> Iterator[str]:
    """What was used, what was understood and could not be, and what was not understood.

    Args:
        spec: what was understood.
        built: the decoder that was made of it.
        settings: what the file holds.
    """
    family = settings.get("model_type")
    name = f"{family!r:.40}" if family is not None else "none stated"
    used: list[str] = []
    open_: list[str] = []
    known: set[str] = set()
    for path, value in spec.stated().items():
        section, _, field = path.partition(".")
        source = spec.sources.get(path)
        flag = source.flag if source is not None and source.kind == "config" else None
        key = flag.rpartition(".")[2] if flag else None
        known |= set(flag.split(".")) if flag else set()
        if section == "init" and field == "std" and key:
            used.append(key)
        if section != "architecture":
            continue
        taken = _taken(field, value, built)
        shown = f"{key or field} = {_value(settings.get(key, value) if key else value)}"
        assumed = "" if key else f" (assumed: {field} of such models)"
        if field in _CHECKED and taken != value:
            open_.append(f"{shown} ({'rotary' if field == 'position' else taken} was taken)")
        elif field in _MODEL | set(_CHECKED):
            if field == "ff_width" and built.inner_width != value:
                open_.append(f"{shown} ({built.inner_width} was taken)")
            elif key and key not in used:
                used.append(key)
        elif field not in _NO_PART and value not in (False, 0, 0.0):
            open_.append(f"{shown}{assumed}")
    if spec.architecture.ff_width is None and "d_ff" in settings:
        used.append("d_ff")
    unread = [
        key
        for key, value in settings.items()
        if key not in known | _ABOUT | set(used) and value is not None
    ]
    yield f"model_type {name}: no class of that family is known here; used: {', '.join(used)}"
    if open_:
        yield f"could not be used: {', '.join(open_)}"
    if unread:
        named = ", ".join(f"{key:.40}" for key in unread[:_MOST])
        more = f" and {len(unread) - _MOST} more" if len(unread) > _MOST else ""
        yield f"not understood, so not used: {named}{more}"
    if "auto_map" in settings:
        yield "auto_map: the model has code of its own, which was not run"


def _taken(field: str, value: Any, built: Architecture) -> Any:
    if field == "position":
        return "rope"
    return getattr(built, _CHECKED[field]) if field in _CHECKED else value


def _value(value: Any) -> str:
    return f"{json.dumps(value, default=str):.60}"

"""Whether a config.json is of a decoder, which reads from left to right."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from surefoot.errors import ConfigError
from surefoot.init import FAMILIES
from surefoot.probe.class_config import transformers

_CAUSAL = ("CausalLM", "LMHead")
_OTHERS = ("MaskedLM", "ForPreTraining", "ConditionalGeneration", "EncoderDecoder", "CTC",
           "QuestionAnswering", "TokenClassification", "MultipleChoice")  # fmt: skip
"""In the names of classes whose model sees all tokens, or has an encoder."""


def require_decoder(settings: Mapping[str, Any], where: str) -> None:
    """Refuse an encoder, or a model with one: the measurement is of a causal language model.

    Told by ``is_encoder_decoder``, by the classes named as ``architectures``, and where there are
    none by transformers' list of masked models. ``is_decoder`` settles it.

    Args:
        settings: what config.json holds.
        where: its name, for messages.

    Raises:
        ConfigError: it is none.
    """
    model_type = settings.get("model_type")
    if settings.get("is_encoder_decoder") is True:
        raise ConfigError(_refusal(where, "is_encoder_decoder = true"))
    if settings.get("is_decoder") is True or model_type in FAMILIES:
        return
    stated = settings.get("architectures")
    names = [name for name in stated if isinstance(name, str)] if isinstance(stated, list) else []
    if any(word in name for name in names for word in _CAUSAL):
        return
    for name in names:
        if any(word in name for word in _OTHERS):
            raise ConfigError(_refusal(where, f"architectures = [{name!r:.60}]"))
    if isinstance(model_type, str) and model_type in _masked():
        raise ConfigError(_refusal(where, f"model_type = {model_type!r:.60}"))


def _refusal(where: str, told_by: str) -> str:
    return (
        f"{where}: {told_by}: this is no decoder, and `check --init` is about causal language "
        "models; give the config.json of one"
    )


def _masked() -> Mapping[str, Any]:
    """Model types that transformers trains with masked tokens."""
    if transformers() is None:
        return {}
    auto = import_module("transformers.models.auto.modeling_auto")
    found: Mapping[str, Any] = getattr(auto, "MODEL_FOR_MASKED_LM_MAPPING_NAMES", {})
    return found

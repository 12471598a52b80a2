"""A config.json of a family that the transformers library has: read by its own class."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from surefoot.errors import ConfigError, nearest
from surefoot.init import FAMILIES
from surefoot.probe.profile import Sizes

_MOST = {"hidden_size": 2**20, "num_hidden_layers": 10**4, "vocab_size": 2**24,
         "num_attention_heads": 2**16}  # fmt: skip
_ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
_STATED = ("hidden_size", "num_hidden_layers")
"""Sizes for which no class's default is taken."""


def class_config(settings: Mapping[str, Any], where: str) -> Any:
    """The configuration object of the class that a config.json names; None if it is not known here.

    Known are the families of :data:`surefoot.init.FAMILIES` that the installed transformers has.
    Nothing is downloaded, no code of the model's own is run.

    Args:
        settings: what config.json holds.
        where: its name, for messages.

    Raises:
        ConfigError: the class refuses the settings, or they are no sizes of a model.
    """
    model_type = settings.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        return None
    library = transformers()
    if library is None or model_type not in library.CONFIG_MAPPING:
        return None
    left_out = ("quantization_config", "auto_map", "torch_dtype", "dtype", "_attn_implementation")
    given = {key: value for key, value in settings.items() if key not in left_out}
    try:
        with quiet():
            config = library.CONFIG_MAPPING[model_type].from_dict(
                {**given, "torch_dtype": "float32"}
            )
    except Exception as error:  # whatever a foreign class raises on foreign settings
        raise ConfigError(f"{where}: {model_type} refuses it: {first_line(error)}") from None
    aliases = {"num_hidden_layers": "n_layer", "hidden_size": "n_embd"}
    for name in _STATED:
        if name not in settings and aliases[name] not in settings:
            raise ConfigError(f"{where}: the model cannot be built: it states no {name}")
    for name, most in _MOST.items():
        value = getattr(config, name, None)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            shown = "nothing" if value is None else repr(value)[:40]
            raise ConfigError(
                f"{where}: {name}: expected a whole number of 1 to {most}, got {shown}"
            )
    _require_activation(config, settings, where)
    return config


def _require_activation(config: Any, settings: Mapping[str, Any], where: str) -> None:
    known = list(import_module("transformers.activations").ACT2FN)
    for key in ("hidden_activation", "hidden_act", "activation_function"):
        value = getattr(config, key, None)
        if key in settings and isinstance(value, str) and value not in known:
            usual = ", ".join(name for name in _ACTIVATIONS if name in known)
            raise ConfigError(
                f"{where}: {key} = {value[:40]!r}: there is no such activation"
                f"{nearest(value, known)}; usual: {usual}"
            )


def transformers() -> Any:
    """The library; None if it is not installed."""
    return import_module("transformers") if find_spec("transformers") is not None else None


def class_sizes(config: Any, where: str) -> Sizes:
    """The shape that a configuration object asks for.

    Raises:
        ConfigError: sizes that do not go together.
    """
    heads = config.num_attention_heads
    width = config.hidden_size
    head_size = getattr(config, "head_dim", None) or width // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    ff_width = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None)
    for name, value, most in (
        ("head_dim", head_size, 2**16),
        ("num_key_value_heads", kv_heads, heads),
        ("intermediate_size", ff_width or 4 * width, 2**22),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ConfigError(
                f"{where}: {name}: expected a whole number of 1 to {most}, got {value!r:.40}"
            )
    if heads % kv_heads:
        raise ConfigError(
            f"{where}: num_key_value_heads = {kv_heads} does not divide num_attention_heads = "
            f"{heads}"
        )
    if not hasattr(config, "head_dim") and width % heads:
        raise ConfigError(
            f"{where}: num_attention_heads = {heads} does not divide hidden_size = {width}"
        )
    patterns = FAMILIES[config.model_type].patterns
    gated = any(
        "gate" in pattern and role == "feed_forward_in" for pattern, role in patterns.items()
    )
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    return Sizes(
        layers=config.num_hidden_layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        ff_width=getattr(config, "moe_intermediate_size", None) or ff_width or 4 * width,
        ff_matrices=3 if gated else 2,
        vocab_size=config.vocab_size,
        experts=experts or 1,
        experts_per_token=getattr(config, "num_experts_per_tok", None) or 1,
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's remarks, which are about generating text and about files."""
    logging = import_module("transformers.utils.logging")
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)


def first_line(error: Exception) -> str:
    """What an error of another library says, as one printable line."""
    text = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "..."

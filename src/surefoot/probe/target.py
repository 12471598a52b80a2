"""What ``surefoot check --init`` is given: a recipe, or a transformers config.json."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.errors import ConfigError, UsageError, nearest
from surefoot.probe.causal import require_decoder
from surefoot.probe.class_config import class_config, class_sizes, transformers
from surefoot.probe.class_model import class_builder
from surefoot.probe.decoder import decoder_builder, sizes_of
from surefoot.probe.profile import Sizes
from surefoot.probe.read_fields import Fields, decoder_of
from surefoot.probe.subject import Build
from surefoot.recipe import Recipe, load
from surefoot.recipe.together import head_factor

LARGEST = 4 << 20
"""Bytes of a config.json that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to be built and how much of it is known.

    Attributes:
        kind: ``recipe`` or ``config.json``.
        model: what is built, in words.
        sizes: at full width.
        build: at any width.
        length: tokens of a training sequence, or the most that positions are made for.
        fixed_length: whether that is what is trained with.
        recipe: of a recipe, the whole.
        rope_theta: base of the rotary frequencies; None = no rotary positions.
        rotary_size: channels of a head that are turned.
        notes: what was and was not used.
        alike: whether fewer experts give what all would: a router's weights sum to 1.
    """

    kind: str
    model: str
    sizes: Sizes
    build: Build
    length: int
    fixed_length: bool
    recipe: Recipe | None = None
    rope_theta: float | None = None
    rotary_size: int = 0
    notes: tuple[str, ...] = ()
    alike: bool = True


def read_target(path: Path, settings: Sequence[str] = (), *, seed: int = 1) -> Target:
    """Find out what a path asks for.

    Args:
        path: a recipe (.toml), a config.json or a folder with one.
        settings: ``section.key=value`` for a recipe.
        seed: of the weights of a config.json; a recipe states its own.

    Raises:
        ConfigError: there is nothing there, or it is no configuration of a model.
        RecipeError: as :func:`surefoot.recipe.load`.
        UsageError: settings with a config.json, or a recipe that starts from trained weights.
    """
    if path.is_dir():
        inside = [path / "config.json"]
        if not inside[0].is_file():
            raise ConfigError(f"{path}: there is no config.json in this folder")
        path = inside[0]
    if not path.exists():
        near = path.parent.iterdir() if path.parent.is_dir() else ()
        raise ConfigError(f"there is no file {path}{nearest(path.name, [p.name for p in near])}")
    if path.suffix.lower() == ".toml":
        return _recipe(path, settings)
    if settings:
        raise UsageError(f"--set goes with a recipe, and {path} is none")
    return _config(path, seed)


def _recipe(path: Path, settings: Sequence[str]) -> Target:
    recipe, _ = load(path, settings)
    a = recipe.architecture
    if recipe.init.pretrained is not None:
        raise UsageError(
            f"{path}: init.pretrained starts from trained weights; `check --init` is about random "
            "ones: leave it out"
        )
    return Target(
        kind="recipe",
        model=f'surefoot\'s decoder, init.method = "{recipe.init.method}"',
        sizes=sizes_of(a),
        build=decoder_builder(a, recipe.init, seed=recipe.seed, head=head_factor(a, recipe.init)),
        length=a.sequence_length,
        fixed_length=True,
        recipe=recipe,
        rope_theta=a.rope_theta,
        rotary_size=a.head_size,
    )


def _config(path: Path, seed: int) -> Target:
    settings = read_json(path)
    where = str(path)
    inner = settings.get("text_config")
    if isinstance(inner, dict):  # of a model for images too, its language model
        settings = {**inner, "model_type": inner.get("model_type", settings.get("model_type"))}
    require_decoder(settings, where)
    config = class_config(settings, where)
    if config is None:
        return _from_fields(path, settings, seed)
    sizes = class_sizes(config, where)
    builder = class_builder(config, sizes, seed=seed, where=where)
    theta = _theta(config)
    fraction = _number(config, "partial_rotary_factor", "rotary_pct") or 1.0
    version = getattr(transformers(), "__version__", "")
    longest = getattr(config, "max_position_embeddings", None)
    return Target(
        kind="config.json",
        model=f"{config.model_type} of transformers {version}, its own random weights",
        sizes=sizes,
        build=builder,
        length=longest if isinstance(longest, int) and longest > 0 else 2048,
        fixed_length=False,
        rope_theta=theta if theta is not None and 0 < theta < float("inf") else None,
        rotary_size=int(sizes.head_size * fraction) // 2 * 2,
        alike=getattr(config, "norm_topk_prob", True) is not False,
    )


def _from_fields(path: Path, settings: dict[str, Any], seed: int) -> Target:
    fields: Fields = decoder_of(path, settings)
    a, init = fields.architecture, fields.init
    return Target(
        kind="config.json",
        model="surefoot's decoder with the sizes of the file",
        sizes=sizes_of(a),
        build=decoder_builder(a, init, seed=seed, head=head_factor(a, init)),
        length=a.sequence_length,
        fixed_length=False,
        rope_theta=a.rope_theta if fields.rotary else None,
        rotary_size=a.head_size,
        notes=fields.notes,
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        ConfigError: it is no JSON, no object, or too large for a configuration.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path}: {path.stat().st_size:,} bytes: this is no config.json")
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected a recipe (.toml) or JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected a table of settings, got {type(found).__name__}")
    return found


def _theta(config: Any) -> float | None:
    parameters = getattr(config, "rope_parameters", None)
    if isinstance(parameters, dict):
        parameters = parameters.get("full_attention", parameters)
        value = parameters.get("rope_theta") if isinstance(parameters, dict) else None
        if isinstance(value, int | float):
            return float(value)
    return _number(config, "rope_theta", "rotary_emb_base")


def _number(config: Any, *names: str) -> float | None:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None

"""Role maps by patterns: of a known family, of a module that knows its own, or as the user says."""

import re
from collections.abc import Mapping

from torch import nn

from surefoot.errors import UsageError, nearest
from surefoot.init.families import FAMILIES, Family, config_of
from surefoot.init.families.family import matches
from surefoot.init.roles import (
    ROLES,
    is_of_parametrization,
    plain_name,
    require_role,
    unwrapped,
)

# What surefoot itself adds to a model of any family.
_ADDED = {r"embedding_norm\.weight": "norm", r"embedding_norm\.bias": "bias"}


def roles_of(
    model: nn.Module, *, family: str | None = None, patterns: Mapping[str, str] | None = None
) -> dict[str, str]:
    r"""The role of each parameter.

    ::

        roles_of(model)                                   # of a known family, or surefoot's own
        roles_of(model, family="llama")                   # named like Llama's
        roles_of(model, patterns={r"gate\.scale": "scale"})  # what the family does not know

    Patterns are regular expressions of the end of a name, from its start or a dot on; the first
    one that matches counts, yours before the family's. A re-parameterised tensor has the role of
    its plain name, what its parametrization trains is ``scale``.

    Args:
        model: surefoot's decoder, a model of transformers, or any module with ``patterns``.
        family: a ``model_type`` of transformers; default: the one in ``model.config``.
        patterns: pattern to role, beside the family's.

    Raises:
        UsageError: if a parameter has no role (with the line to add), a pattern of yours matches
            nothing or is none, a role is unknown, or the family is.
    """
    inner, prefix = unwrapped(model)
    own = getattr(inner, "roles", None)
    if callable(own) and family is None and patterns is None:
        return {f"{prefix}{name}": role for name, role in own().items()}
    given = dict(patterns or {})
    for pattern, role in given.items():
        _require_pattern(pattern)
        require_role(role, f"pattern {pattern!r}")
    known = _family(model, family, given)
    table = given | {p: r for p, r in known.items() if p not in given} | _ADDED
    names = dict(model.named_parameters())
    roles = {}
    used: set[str] = set()
    for name, parameter in names.items():
        if is_of_parametrization(name):
            roles[name] = "scale"
            continue
        plain = plain_name(name)
        used.update(pattern for pattern in given if matches(pattern, plain))
        found = next((role for pattern, role in table.items() if matches(pattern, plain)), None)
        if found is None:
            raise UsageError(
                f"parameter {plain!r} of shape {tuple(parameter.shape)} has no role: add to "
                f'`patterns` the line  r"{_pattern_of(plain)}": ROLE,  with ROLE one of '
                f"{', '.join(ROLES)}"
            )
        roles[name] = found
    for pattern in given:
        if pattern not in used:
            plain_names = [plain_name(name) for name in names]
            hint = nearest(pattern.replace("\\", ""), plain_names)
            raise UsageError(f"the pattern {pattern!r} matches no parameter{hint}")
    return roles


def _family(model: nn.Module, name: str | None, given: Mapping[str, str]) -> Mapping[str, str]:
    if name is not None:
        found: Family = FAMILIES.lookup(name)
        return found.patterns
    model = unwrapped(model)[0]
    model_type = getattr(config_of(model), "model_type", None)
    if model_type is not None and model_type in FAMILIES:
        return FAMILIES[model_type].patterns
    if not given:
        what = f"model_type {model_type!r}" if model_type else type(model).__name__
        raise UsageError(
            f"{what} is no family whose parameters are known ({', '.join(sorted(FAMILIES))}): "
            "say which it is named like, roles_of(model, family=...), or give "
            "roles_of(model, patterns=...)"
        )
    return {}


def _require_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"the pattern {pattern!r} is no regular expression: {error}") from None


def _pattern_of(name: str) -> str:
    """A regular expression of a name, for every layer at once."""
    return re.sub(r"(?<=\\\.)\d+(?=\\\.)|^\d+(?=\\\.)", r"\\d+", re.escape(name))

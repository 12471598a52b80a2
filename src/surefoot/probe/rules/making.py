"""How grave a finding about a start is, and its making."""

from collections.abc import Mapping
from typing import Any

from surefoot.codes import lookup
from surefoot.probe.profile import InitProfile
from surefoot.records import Finding, Place, Severity

TRAINED = frozenset({"wesar"})
"""Methods published with runs that trained through in spite of a small shortcut: WeSaR evens out
the updates of all matrices instead (Nishida et al. 2024, 2410.05052)."""

SPIKE_NO_MORE = "Takase et al. 2023, 2312.16903"


def finding(
    code: str,
    profile: InitProfile,
    message: str,
    *,
    evidence: Mapping[str, Any],
    actions: tuple[str, ...] = (),
    references: tuple[str, ...] = (),
    layer: str | None = None,
    remark: bool = False,
) -> Finding:
    """A finding as grave as its code, or a remark.

    A warning is for a recipe, in which what it names is still to be chosen. A ``config.json``
    states a class, whose own initialisation was drawn, and neither how the model it came with was
    started nor at which rate it is trained; about it everything but an error is a remark.

    Args:
        code: of the table in :mod:`surefoot.codes`.
        profile: what it is about.
        message: one sentence with the numbers.
        evidence: the numbers by name.
        actions: what to do.
        references: where it is known from.
        layer: the layer or table it is about.
        remark: whether it is one in any case.
    """
    entry = lookup(code)
    severity: Severity = entry.severity
    if severity == "warning" and (remark or profile.kind != "recipe" or profile.method in TRAINED):
        severity = "info"
    return Finding(
        code=code,
        name=entry.name,
        severity=severity,
        place=Place(file=profile.target, layer=layer),
        evidence=evidence,
        message=message,
        actions=actions,
        references=references,
    )


def by_kind(
    profile: InitProfile, recipe: tuple[str, ...], config: tuple[str, ...]
) -> tuple[str, ...]:
    """What to do, in words that the owner of a recipe or of a config.json can use."""
    return recipe if profile.kind == "recipe" else config


def shown(value: float) -> str:
    """Three significant digits, without an exponent from a thousand on."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"

"""The rules of the family INI, a file each for gradients, output, attention and tables."""

from collections.abc import Callable, Iterator

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.attention import collapsed, rotary
from surefoot.probe.rules.gradients import conditions, growth
from surefoot.probe.rules.output import head_too_sure, not_finite
from surefoot.probe.rules.tables import barely_move
from surefoot.records import Finding

__all__ = ["RULES"]

RULES: tuple[Callable[[InitProfile], Iterator[Finding]], ...] = (
    conditions,
    growth,
    head_too_sure,
    collapsed,
    barely_move,
    rotary,
    not_finite,
)
"""In the order of their codes."""

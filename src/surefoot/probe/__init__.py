"""Look at a model before its first step: whether its random weights let it start well.

::

    from surefoot.probe import not_checked, profile_start, verdicts
    profile = profile_start("recipes/stdlib-1m.toml")
    profile.gradient_growth          # gradient before the first layer over that behind the last
    profile.layers[0].feed_forward_bound
    verdicts(profile), not_checked(profile)

A ``config.json`` of transformers will do as well. What is too large is built narrower, so that its
sub-layers act as those of the wide one (:mod:`surefoot.probe.reduce`).
"""

from typing import TYPE_CHECKING, Any

from surefoot.probe.profile import InitProfile, LayerProfile, RotaryProfile, Sizes, TableProfile
from surefoot.probe.verdicts import not_checked, verdicts

if TYPE_CHECKING:
    from surefoot.probe.start import profile_start

__all__ = [
    "InitProfile",
    "LayerProfile",
    "RotaryProfile",
    "Sizes",
    "TableProfile",
    "not_checked",
    "profile_start",
    "verdicts",
]


def __getattr__(name: str) -> Any:
    """``profile_start`` brings torch, the records do not."""
    if name == "profile_start":
        from surefoot.probe.start import profile_start

        return profile_start
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

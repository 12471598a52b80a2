"""Kinds of trouble that come by themselves: nothing is planted."""

import dataclasses
from typing import Any

from kinds import Context, Kind, Plan, kind

KINDS: dict[str, Kind] = {}


@kind(
    KINDS,
    name="natural-spike",
    group="adam",
    cause="second-moment",
    natural=True,
    from_start=True,
    families=("quiet",),
    strengths={"": None},
    each=4,
    tail=900,
)
def _(c: Context, s: Any) -> Plan:
    # On a few samples over and over the gradients shrink, v with them, until one is too large for
    # it: the spikes of Bai et al. 2025, 2506.04805.
    rate = c.setting.rate * c.pick("rate", [1.0, 1.3, 1.6])
    setting = dataclasses.replace(c.setting, rate=rate, repeat=c.pick("repeat", [32, 40, 48, 56]))
    return Plan(setting=setting)

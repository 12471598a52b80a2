"""What a profile says of a start: findings of the family INI, and what could not be judged."""

from collections.abc import Mapping

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules import RULES
from surefoot.records import Finding


def verdicts(profile: InitProfile) -> list[Finding]:
    """The findings, in the order of their codes; each message holds its number."""
    return [finding for rule in RULES for finding in rule(profile)]


def not_checked(profile: InitProfile) -> list[Mapping[str, str]]:
    """Rules that could not be applied: ``code``, and what it ``needs``."""
    found: list[Mapping[str, str]] = []
    if profile.placement != "pre":
        needs = f'norm_placement = "pre" (here {profile.placement}): the bounds hold for it only'
        found += [{"code": code, "needs": needs} for code in ("INI001", "INI002")]
    if all(layer.entropy is None for layer in profile.layers):
        needs = "an attention that goes through torch's functions, and two tokens to look at"
        found.append({"code": "INI005", "needs": needs})
    if not any(table.reach is not None for table in profile.tables):
        needs = "a learning rate and a number of steps, which a config.json does not state"
        found.append({"code": "INI006", "needs": needs})
    if profile.rotary is None:
        found.append({"code": "INI007", "needs": "rotary positions"})
    return found

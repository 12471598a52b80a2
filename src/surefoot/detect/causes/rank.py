"""The ranking: every hypothesis weighed, as shares of one, and modest where little is recorded."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from surefoot.detect.causes._picture import Picture
from surefoot.detect.evidence import CAUSES, Evidence, Hypothesis

CURVE_ONLY = 0.35
"""Largest share of a named cause where nothing but the loss and the rate is recorded."""
GRADIENT_ONLY = 0.6
"""The same where the gradient norm is all there is beside them."""
_TELLING = re.compile(
    r"^(log_z|z_loss|adam_|eps_|update_r|grad_cosine|param_)|logit|(?<!grad_)norm"
)
"""Signals of a cause: not counters, times, or what is computed from the loss and the gradient."""
PACKAGE = "surefoot.detect.causes"

Weigh = Callable[[Evidence], Hypothesis]


@cache
def hypotheses() -> dict[str, Weigh]:
    """``weigh`` of each hypothesis by its name: every module of the folder that defines one.

    Raises:
        ValueError: if a module's ``CAUSE`` is not in :data:`surefoot.detect.evidence.CAUSES`.
    """
    found: dict[str, Weigh] = {}
    for module in sorted(iter_modules(import_module(PACKAGE).__path__), key=lambda m: m.name):
        if module.name.startswith("_") or module.name == "rank":
            continue
        loaded = import_module(f"{PACKAGE}.{module.name}")
        if loaded.CAUSE not in CAUSES:
            raise ValueError(f"{module.name}.CAUSE is {loaded.CAUSE!r}: expected one of {CAUSES}")
        found[loaded.CAUSE] = loaded.weigh
    return found


def rank(evidence: Evidence) -> tuple[Hypothesis, ...]:
    """All hypotheses, likeliest first; ``weight`` is the share of each, together 1.

    From a loss curve alone no named cause gets more than :data:`CURVE_ONLY`, but where a step was
    impossible: then it is known what did not do it.
    """
    weighed = [weigh(evidence) for weigh in hypotheses().values()]
    total = sum(h.weight for h in weighed)
    shares = {h.cause: h.weight / total for h in weighed}
    cap = _cap(Picture(evidence))
    if cap < 1.0:
        kept = {c: s if c == "unknown" else min(s, cap) for c, s in shares.items()}
        kept["unknown"] += 1.0 - sum(kept.values())
        shares = kept
    ranked = [replace(h, weight=shares[h.cause]) for h in weighed]
    # Equal shares in the order of CAUSES, so that the same evidence gives the same answer.
    return tuple(sorted(ranked, key=lambda h: (-h.weight, CAUSES.index(h.cause))))


def _cap(p: Picture) -> float:
    """How sure a named cause may be, given what is recorded."""
    if p.impossible is not None:
        return 1.0
    recorded = {*p.e.scalars, *p.e.place_count}
    if p.e.scale_before is not None or any(_TELLING.search(name) for name in recorded):
        return 1.0
    return GRADIENT_ONLY if "grad_norm" in recorded else CURVE_ONLY

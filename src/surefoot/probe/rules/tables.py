"""INI006: embeddings and positions that stay as they were drawn."""

from collections.abc import Iterator

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.making import finding
from surefoot.records import Finding

BARELY = 0.1
"""Farthest movement of an element over the run, in units of the table's RMS."""


def barely_move(profile: InitProfile) -> Iterator[Finding]:
    """A table that the optimizer cannot carry away from its random start."""
    for table in profile.tables:
        if table.reach is None or not table.reach < BARELY:
            continue
        yield finding(
            "INI006",
            profile,
            f"{table.name} starts with elements of RMS {table.rms:.3g}, and in the whole run the "
            f"optimizer can carry none of them farther than {table.reach:.2g} of that: it stays "
            "nearly as it was drawn",
            evidence={
                "table": table.name,
                "rms": table.rms,
                "reach": table.reach,
                "warmup_reach": table.warmup_reach,
                "gradient": table.gradient,
            },
            actions=(
                'start it smaller and enlarge what it gives: init.embedding_std = "small" with '
                'architecture.embedding_scale = "sqrt_width"',
                "or train longer or at a higher rate; lower optimizer.eps if the gradient is near "
                "it",
            ),
            layer=table.name,
        )

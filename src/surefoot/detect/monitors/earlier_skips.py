"""PRC002: batches had been skipped for NaN before this one: it is a repeat, not the first."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.records import Finding

_COUNTER = re.compile(r"(?=.*(nan|inf(?!o)))(?=.*skip)[a-z0-9_]+")
"""A running count of batches skipped for NaN or infinity, e.g. ``inf_nan_skip_batches``."""


class EarlierSkips(Plain):
    """Reads a trainer's running count of batches skipped for NaN when the next one comes."""

    name = "earlier-skips"
    fields = ("signals", "counter", "count", "first", "consumed", "told")

    def __init__(self) -> None:
        self.counter: str | None = None
        self.count = 0.0
        self.first: int | None = None
        self.consumed: list[Any] | None = None
        self.told = False
        self.signals = 0

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the counter and what happens at a row."""
        values = row.values
        if self.told:
            return NOTHING
        before, begins = self.count, self.consumed
        name = self._find(values)
        if name is None:
            return NOTHING
        for counted, unit in (("consumed_tokens", "tokens"), ("consumed_samples", "samples")):
            position = finite(values, counted)
            if position is not None:
                self.consumed = [unit, int(position)]
                break
        where = "" if begins is None else f" ({begins[0]} from {begins[1]:,} on)"
        self.first = row.step if self.first is None else self.first
        count = finite(values, name)
        if count is not None:
            rose = count > before and self.first < row.step
            self.count = max(count, before)
        else:
            rose = False
        signals = [values.get(n) for n in ("loss", "grad_norm")]
        broken = any(x is not None and not math.isfinite(x) for x in signals)
        skipped = (finite(values, "update_skipped") or 0.0) > 0.0
        if before <= 0.0 or not (rose or broken or skipped):
            return NOTHING
        self.told = True
        return [
            finding(
                "PRC002",
                f"{name} already stood at {before:.0f} before step {row.step}: {before:.0f} "
                "batches had been skipped for values that are not finite, so this is a repeat",
                row,
                signal=name,
                evidence={"counter": name, "before": before, "first_seen_step": self.first},
                actions=(
                    f"list the steps of the {before:.0f} earlier skips and their batches, and see "
                    "what these have in common (length, packing, source)",
                    f"replay the batch of step {row.step}{where} from the checkpoint before "
                    "it, and find the first tensor that is not finite",
                ),
                references=("InternLM/InternEvo issue 375",),
            )
        ]

    def _find(self, values: Mapping[str, Any]) -> str | None:
        if self.counter is None:
            if len(values) != self.signals:
                self.signals = len(values)
                self.counter = next((n for n in values if _COUNTER.fullmatch(n)), None)
        return self.counter

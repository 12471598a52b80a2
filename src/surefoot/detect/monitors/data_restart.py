"""CKP002: the position in the data goes back while the steps go on: samples are seen again."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.detect.monitors._base import NOTHING, Plain, Row, finding, finite
from surefoot.detect.monitors._trail import Trail
from surefoot.records import Finding

COUNTERS = ("consumed_samples", "consumed_tokens", "epoch")
"""They never go back, but with the steps."""
_POSITION = re.compile(
    r"(data|loader|dataset|dataloader|stream|sampler)?_?"
    r"(shard|offset|position|cursor|chunk|file|sample|batch)(_?(index|idx|id|number|position))?"
)
_NO_POSITION = ("batch", "sample", "file", "position_id")
MOST = 8
"""Positions watched at once."""
ENOUGH = 2


class DataRestart(Plain):
    """Holds the data position of a restart's first record against what had been read by then.

    A counter (``consumed_samples``) that is below what it was at an *earlier* step has gone back.
    Other positions (a shard, an offset) may begin again with each pass over the data, so they count
    at a restart only, if they never turned back in the run before and are back at their lowest.
    """

    name = "data-restart"
    fields = ("names", "signals", "step", "attempt", "phase", "lowest", "wrapped", "told")

    def __init__(self) -> None:
        self.step: int | None = None
        self.attempt = 0
        self.phase: float | None = None
        self.lowest: dict[str, float] = {}
        self.wrapped: list[str] = []
        self.told: list[str] = []
        self._trails: dict[str, Trail] = {}
        self.names: list[str] = []
        self.signals = 0

    def update(self, row: Row) -> Sequence[Finding]:
        """Judge the positions of a row."""
        found: Sequence[Finding] = NOTHING
        step, values = row.step, row.values
        resumed = self.step is not None and (row.attempt > self.attempt or step <= self.step)
        if resumed:
            self.told = []
        phase = finite(values, "data_phase")
        planned = phase is not None and self.phase is not None and phase != self.phase
        for name in self._watched(values):
            value = finite(values, name)
            if value is None:
                continue
            trail = self._trails.get(name)
            if trail is None:
                trail = self._trails[name] = Trail()
                self.lowest[name] = value
            due = trail.around(step)[0] if resumed else trail.last()
            if due is not None and value < due[1]:
                if name not in self.told and not planned:
                    told = self._back(row, name, value, due, resumed=resumed)
                    found = found or told
                self.lowest[name] = min(value, self.lowest[name])
            if resumed:
                trail.forget_from(step)
            trail.add(step, value)
        self.step, self.attempt = step, row.attempt
        self.phase = phase if phase is not None else self.phase
        return found

    def _watched(self, values: Mapping[str, Any]) -> list[str]:
        if len(values) != self.signals:
            self.signals = len(values)
            names = [n for n in COUNTERS if n in values]
            names += sorted(
                n for n in values if n not in _NO_POSITION and _POSITION.fullmatch(n.lower())
            )
            # Names seen before stay: a record may lack them.
            self.names = list(dict.fromkeys([*self.names, *names]))[:MOST]
        return self.names

    def _back(
        self, row: Row, name: str, value: float, due: tuple[int, float], *, resumed: bool
    ) -> Sequence[Finding]:
        if name not in COUNTERS:
            if not resumed:
                if name not in self.wrapped:
                    self.wrapped.append(name)
                return NOTHING
            if name in self.wrapped or value > self.lowest.get(name, value):
                return NOTHING
        elif len(self._trails[name]) < ENOUGH:
            return NOTHING
        self.told.append(name)
        where = "after the restart" if resumed else "without a restart being marked"
        return [
            finding(
                "CKP002",
                f"{name} is {value:.12g} at step {row.step} {where}, below the {due[1]:.12g} of "
                f"step {due[0]}: the data began anew while the steps went on, and what is read "
                "now was read before (or the counter alone was not restored)",
                row,
                signal=name,
                cause="resume-state",
                evidence={
                    "signal": name,
                    "value": value,
                    "before": due[1],
                    "before_step": due[0],
                    "resumed": resumed,
                },
                actions=(
                    f"stop: losses from step {row.step} on are of repeated data and too low, "
                    "and every later checkpoint has seen it; what happens when new data begins is "
                    "a consequence",
                    f"restore the loader's position and resume from the checkpoint at or before "
                    f"step {row.step}",
                ),
                references=(
                    "paiml/entrenar issue 294",
                    "Bekman, ml-engineering, training-loss-patterns (repeated data)",
                ),
            )
        ]

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        trails = {name: trail.state() for name, trail in self._trails.items()}
        return {**super().state_dict(), "trails": trails}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        super().load_state_dict(state)
        self._trails = {name: Trail(item) for name, item in state.get("trails", {}).items()}

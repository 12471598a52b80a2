"""Checks that a run is consistent with itself, each by its own rule, with no incident needed.

::

    from surefoot.detect.monitors import Monitors

    monitors = Monitors(spec=run.spec)
    for record in records:
        for finding in monitors.update(record):
            print(finding.code, finding.message)
    monitors.finish()

Where a detector judges noise, a monitor finds a contradiction: a learning rate that begins anew at
a restart, data that are read again, a step that no optimizer can have made, a counter that denies
what the loss scale shows. So one record is enough, and a finding of severity error is certain.

A monitor is a module here, with a class; :data:`MONITORS` lists them in the order of their codes.
"""

from collections.abc import Mapping
from typing import Any

from surefoot.detect.monitors._base import Monitor, Row
from surefoot.detect.monitors.all_skipped import AllSkipped
from surefoot.detect.monitors.cooldown_rise import CooldownRise
from surefoot.detect.monitors.data_restart import DataRestart
from surefoot.detect.monitors.earlier_skips import EarlierSkips
from surefoot.detect.monitors.loss_vanished import LossVanished
from surefoot.detect.monitors.off_schedule import OffSchedule
from surefoot.detect.monitors.rate_frozen import RateFrozen
from surefoot.detect.monitors.rate_jump import RateJump
from surefoot.detect.monitors.rate_restart import RateRestart
from surefoot.detect.monitors.skips_not_counted import SkipsNotCounted
from surefoot.detect.monitors.weights_replaced import WeightsReplaced
from surefoot.detect.monitors.zero_loss import ZeroLoss
from surefoot.records import Event, Finding, StepRecord, TrainSpec

FORMAT = 1


class Monitors:
    """All monitors, fed together.

    Args:
        spec: what the run was asked to do, as far as known: the schedule and the vocabulary.
    """

    name = "monitors"

    def __init__(self, *, spec: TrainSpec | None = None) -> None:
        self.monitors: tuple[Monitor, ...] = (
            RateRestart(),
            DataRestart(),
            WeightsReplaced(spec),
            OffSchedule(spec),
            CooldownRise(),
            SkipsNotCounted(),
            RateJump(),
            RateFrozen(),
            LossVanished(),
            ZeroLoss(),
            AllSkipped(),
            EarlierSkips(),
        )
        self._updates = tuple(monitor.update for monitor in self.monitors)

    def update(self, record: StepRecord) -> list[Finding]:
        """What the next record tells; it never raises on what a record holds."""
        row = Row(record)
        found: list[Finding] = []
        for update in self._updates:
            told = update(row)
            if told:
                found += told
        return found

    def tell(self, event: Event) -> None:
        """Take note of an event of the ledger, before the records that follow it."""
        for monitor in self.monitors:
            monitor.tell(event)

    def finish(self) -> list[Finding]:
        """What can be told only when no record follows; changes nothing."""
        return [finding for monitor in self.monitors for finding in monitor.finish()]

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {
            "format": FORMAT,
            "monitors": {monitor.name: monitor.state_dict() for monitor in self.monitors},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`; a monitor that it lacks starts anew.

        Raises:
            ValueError: if it was written in another format.
        """
        if state.get("format") != FORMAT:
            raise ValueError(
                f"expected monitor state of format {FORMAT}, got {state.get('format')!r}"
            )
        for monitor in self.monitors:
            if monitor.name in state["monitors"]:
                monitor.load_state_dict(state["monitors"][monitor.name])


__all__ = ["Monitor", "Monitors"]

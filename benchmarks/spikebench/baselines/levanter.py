"""Levanter's clip_update_norm: updates above mean + 3 sigma of the last 128 unclipped norms."""

from surefoot.records import StepRecord

from .protocol import Baseline, Window, number


class Levanter(Baseline):
    """Flags a step whose update would be clipped. The window holds norms before clipping.

    The update's norm is its root mean square times a constant, so the rule is the same on either.
    """

    name = "Levanter update-norm"
    watches = ("update_rms",)
    setting = "window 128, 3 sigma, active after 64 (its defaults)"

    def __init__(self) -> None:
        self.window = Window(128)

    def update(self, record: StepRecord) -> bool:
        """Take the next record; whether it flags this step."""
        value = number(record, "update_rms")
        if value is None:
            return False
        flagged = False
        if len(self.window) >= 64:
            mean, sigma = self.window.moments()
            flagged = value > mean + 3.0 * sigma
        self.window.push(value)
        return flagged

"""modded-nanogpt speedruns: ``step:6199/6200 train_loss:3.2344 train_time:1338853ms ...``.

The trainer prints its own source on top, with f-strings of these very lines, and several runs are
often written to one file, one after another; many of them tell only validation losses.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_HEAD = re.compile(r"\bstep:(\d{1,12})(?:/(\d{1,12}))? (?=[a-z_]{1,40}:(?:[\d.-]|nan|inf))")
_PEAK = re.compile(r"peak memory (?:allocated|consumption): (\d+) MiB(?: reserved: (\d+) MiB)?")


class ModdedNanogpt(LineParser):
    """Training and validation records; a step that goes back begins another run."""

    def __init__(self) -> None:
        self._total: str | None = None
        self._last: int | None = None
        self._trains = False

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        found = _HEAD.search(line.text)
        if found is None:
            peak = _PEAK.search(line.text)
            if peak is not None:
                values = {"peak memory (MiB)": float(peak[1])}
                if peak[2]:
                    values["max reserved (MiB)"] = float(peak[2])
                yield Point(None, values, line.number, line.rank, line.time)
            return
        if found[2] and found[2] != self._total:
            self._total = found[2]
            yield Note("facts", None, line.number, {"steps": int(found[2])})
        step = int(found[1])
        if self._last is not None and step < self._last - 1:
            self._trains = False
        self._last = step
        values = {pair.key: pair.value for pair in pairs(line.text, found.end())}
        validation = "val_loss" in values
        self._trains = self._trains or not validation
        if values:
            # Where nothing but validation is told, these are the records of the run.
            beside = validation and self._trains
            yield Point(step, values, line.number, line.rank, line.time, evaluation=beside)


FORMAT = LineFormat(
    name="modded-nanogpt",
    title="modded-nanogpt",
    parser=ModdedNanogpt,
    needles=("step:", "peak memory"),
)

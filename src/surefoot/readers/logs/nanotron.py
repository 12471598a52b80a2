"""nanotron standard output: ``iteration: 12 / 100 | consumed_tokens: 85.8G | lm_loss: 2.38 | ...``.

Its numbers have three digits and suffixes (11.5K, 85.8G); older versions print them in full.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pipes import fields
from surefoot.readers.numbers import as_whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_STEP = re.compile(r"\biteration: (\d{1,12}) / (\d{1,12}) \|")
_START = re.compile(r"\[Start training\] ")
_SAVED = re.compile(r"Saving checkpoint at (\S{1,400}?/?(\d{1,12}))\s*$")
_DATE = re.compile(r"(?<!\d)(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d) \[")


class Nanotron(LineParser):
    """A record a line, printed by one rank of each data-parallel group."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        step = _STEP.search(line.text)
        if step is not None:
            values: dict[str, float] = {}
            for key, value in fields(line.text[step.end() :]):
                values.setdefault(key, value)
            held_out = {key for key in values if key.startswith(("validation", "val_"))}
            trained = {key: value for key, value in values.items() if key not in held_out}
            evaluated = {key: value for key, value in values.items() if key in held_out}
            at = int(step[1])
            if trained:
                yield Point(at, trained, line.number, line.rank, self._time(line))
            if evaluated:
                yield Point(at, evaluated, line.number, line.rank, None, evaluation=True)
            yield Note("facts", None, line.number, {"steps": int(step[2])})
            return
        if _START.search(line.text) is not None:
            begin = as_whole(dict(fields(line.text)).get("start_iteration_step"))
            if begin:
                yield Note("resumed", begin, line.number)
            return
        saved = _SAVED.search(line.text)
        if saved is not None:
            yield Note("checkpoint", int(saved[2]), line.number, {"path": saved[1]})

    def _time(self, line: Line) -> float | None:
        """Its own date, month first: `10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]:`."""
        found = _DATE.search(line.text, 0, 200) if line.time is None else None
        if found is None:
            return line.time
        month, day, year, hour, minute, second = map(int, found.groups())
        try:
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
        except ValueError:
            return None


FORMAT = LineFormat(
    name="nanotron",
    title="nanotron",
    parser=Nanotron,
    needles=("iteration: ", "[Start training]", "Saving checkpoint at"),
    names={
        "elapsed_time_per_iteration_ms": ("step_time", 1e-3),
        "cuda_max_memory_reserved": ("memory_reserved", 1.0),
        "tokens_per_sec_per_gpu": ("tokens_per_second_per_device", 1.0),
    },
    weight=1.0,
)

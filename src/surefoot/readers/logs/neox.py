"""GPT-NeoX standard output: Megatron's records behind ``samples/sec``, with DeepSpeed's lines."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat
from surefoot.readers.logs import megatron
from surefoot.readers.logs.deepspeed import NEEDLES, DeepSpeed
from surefoot.readers.logs.megatron import Megatron
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_RECORD = re.compile(r"samples/sec: {1,4}\S{1,24} \| {1,4}iteration")


class NeoX(Megatron):
    """Megatron's records that begin with samples/sec, and what DeepSpeed tells of the same steps.

    DeepSpeed's ``step=`` line comes before the record of its step: its numbers are told with that
    record, under ``deepspeed/``. One that no record follows (the log is cut, or DeepSpeed prints
    more often) says nothing that the records do not.
    """

    def __init__(self) -> None:
        self._deepspeed = DeepSpeed()
        self._beside_step: dict[int, dict[str, float]] = {}
        self._last: int | None = None
        self._overflows: list[int] = []

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        if "step=" in text or "OVERFLOW" in text or "global_step" in text:
            yield from self._of_deepspeed(line)
            return
        record = "samples/sec: " in text and _RECORD.search(text) is not None
        if (
            not record
            and " at iteration" not in text
            and "|" in text
            and megatron.STEP.search(text) is not None
        ):
            return  # another trainer's record
        for item in super().feed(line):
            if isinstance(item, Point) and not record and self._last is None:
                continue  # timers and memory, which others print alike
            if isinstance(item, Point) and item.step is not None and record:
                for key, value in self._beside_step.pop(item.step, {}).items():
                    item.values[f"deepspeed/{key}"] = value
                self._beside_step.clear()
                self._last = item.step
                yield item
                yield from self._skipped(item.step)
                continue
            yield item

    def finish(self) -> Iterator[Item]:
        """Overflows after the last record: of a step that was not told."""
        yield from self._skipped(None if self._last is None else self._last + 1)

    def _of_deepspeed(self, line: Line) -> Iterator[Item]:
        for item in self._deepspeed.feed(line):
            if isinstance(item, Point):
                if item.step is not None and len(self._beside_step) < 1000:
                    self._beside_step.setdefault(item.step, {}).update(item.values)
            elif isinstance(item, Note) and item.kind != "update_skipped":
                yield item
        if "OVERFLOW" in line.text and len(self._overflows) < 10_000:
            self._overflows.append(line.number)  # of the steps whose record comes next

    def _skipped(self, step: int | None) -> Iterator[Item]:
        for number_of_line in self._overflows:
            yield Note("update_skipped", step, number_of_line)
        self._overflows.clear()


FORMAT = LineFormat(
    name="neox",
    title="GPT-NeoX",
    parser=NeoX,
    needles=(*megatron.NEEDLES, *NEEDLES),
    names=megatron.NAMES,
    weight=1.0,
)

"""Levanter and Marin: ``Progress on:train 11.0it/100it rate:34.5s/it ... postfix:loss=15.5``.

From 1,000 on the count is written with three digits (``1.23kit``): the step is then known so far.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.logs._bars import LastDrawn, bar
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_COUNT = r"([\d.]{1,16}) ?([kMG]?)(?:it|step|steps)?"
_PROGRESS = re.compile(
    rf"\bProgress on: ?(train|Train|training) {_COUNT}/{_COUNT} "
    r"rate:([\d.,]{1,16})? ?(it/s|s/it|[?-])?\S{0,16}.{0,120}?postfix:(.{1,2000})"
)
_VALIDATION = re.compile(
    rf"(?:\b([\w./-]{{1,80}}) )?\b(?:validation|eval) loss: ({NUMBER})\s*$", re.IGNORECASE
)
_SAVING = re.compile(r"\bSav(?:ing|ed) checkpoint (?:at|for) step (\d{1,12})(?: to (\S{1,400}))?")
_RESUMED = re.compile(r"\bResum(?:ing|ed) (?:training )?(?:from|at) step (\d{1,12})")
_SCALE = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


class Levanter(LineParser):
    """Lines of the progress bar, drawn or logged; results of evaluations."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._total: int | None = None
        self._rounded = False
        self._drawn = LastDrawn()

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _PROGRESS.search(text)
        if found is not None:
            step, total = _whole(found[2], found[3]), _whole(found[4], found[5])
            values = _postfix(found[8])
            rate = number(found[6]) if found[6] else None
            if rate is not None and rate > 0 and found[7] in ("it/s", "s/it"):
                values[f"rate ({found[7]})"] = rate
            yield from self._record(line, step, total, values, bool(found[3]))
            return
        drawn = bar(text)
        if drawn is not None and drawn.description == "train":
            values = _postfix(drawn.postfix)
            record = self._record(line, drawn.n, drawn.total, values, not drawn.exact)
            for item in record:
                last = self._drawn.take(drawn.n, item) if isinstance(item, Point) else item
                if last is not None:
                    yield last
            return
        yield from self._drawn.rest()
        told = _VALIDATION.search(text) if self._last is not None else None
        if told is not None:
            loss = number(told[2])
            if loss is not None:
                key = f"{told[1]} validation loss" if told[1] else "validation loss"
                values = {key: loss}
                yield Point(self._last, values, line.number, line.rank, line.time, evaluation=True)
            return
        saving = _SAVING.search(text)
        if saving is not None:
            data = {"path": saving[2]} if saving[2] else {}
            yield Note("checkpoint", int(saving[1]), line.number, data)
            return
        resumed = _RESUMED.search(text)
        if resumed is not None:
            yield Note("resumed", int(resumed[1]), line.number)

    def finish(self) -> Iterator[Item]:
        """What was drawn last."""
        yield from self._drawn.rest()

    def _record(
        self,
        line: Line,
        step: int | None,
        total: int | None,
        values: dict[str, float],
        rounded: bool,
    ) -> Iterator[Item]:
        if step is None or "loss" not in values:
            return
        if rounded and step == self._last:
            return  # one of the steps that are written alike; the first one told stands for them
        self._last = step
        yield Point(step, values, line.number, line.rank, line.time)
        if rounded and not self._rounded:
            self._rounded = True
            yield Note("facts", None, line.number, {"steps_are": "rounded"})
        if total and total != self._total:
            self._total = total
            yield Note("facts", None, line.number, {"steps": total})


def _postfix(text: str) -> dict[str, float]:
    return {pair.key: pair.value for pair in pairs(text) if pair.told}


def _whole(digits: str, scale: str) -> int | None:
    value = number(digits)
    return None if value is None else round(value * _SCALE[scale])


FORMAT = LineFormat(
    name="levanter",
    title="Levanter",
    parser=by_rank(Levanter),
    needles=("Progress on", "rain", "loss: ", "checkpoint", "Resum"),
    names={"rate (s/it)": ("step_time", 1.0)},
    weight=0.95,
)

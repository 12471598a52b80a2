"""ColossalAI: progress bars of its LLaMA and OpenMoE scripts, lines of its GPT scripts.

Its bars look like those of many others: they are read in a log that names ColossalAI before them,
as its launcher and its boosters do.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.logs._drawn import Drawn, drawing
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_NAMED = re.compile(r"(?i:colossal-?ai)|Booster init max (?:CUDA|device) memory")
_TITLE = re.compile(r"\[?Epoch:? \[?(\d{1,9})(?:/\d{1,9})?\]?(?: / (Train|Eval|Test)\])?")
_STEP = re.compile(r"\[(\d{1,12})/(\d{1,12})\] (?=Loss: ?[\d.ni])")
_FIELD = re.compile(
    r"(?:^|, )([A-Za-z]{1,12}(?: [A-Za-z]{1,12}){0,2}): ?"
    r"([-+]?(?:\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,4})?|nan|inf))( ?MB|s)?(?=,|\s*$)"
)
_SAVED = re.compile(
    r"\bSaved checkpoint at epoch (\d{1,9}) step (\d{1,12})(?: at folder (\S{1,1000}))?"
)
_LOADED = re.compile(r"\bLoaded checkpoint \S{1,1000} at epoch (\d{1,9}) step (\d{1,12})")


class ColossalAI(LineParser):
    """Bars by the steps done, of all epochs; the GPT scripts' lines by their number.

    A bar is drawn when a step's loss is known and again when the step is counted: a loss is told
    once, with the later count, which is the number of steps done with it.
    """

    def __init__(self) -> None:
        self._held: tuple[Drawn, Line] | None = None
        self._counted = False
        self._named = False
        self._told: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        self._named = self._named or _NAMED.search(text) is not None
        if "oss=" in text and self._named:
            drawn = drawing(text)
            title = _TITLE.fullmatch(drawn.title.rpartition(": ")[2]) if drawn is not None else None
            if drawn is not None and title is not None and title[2] in (None, "Train"):
                yield from self._drawn(drawn, line)
            return
        step = _STEP.search(text)
        if step is not None:
            values = {
                f"{key} ({unit.strip()})" if unit else key: float(told)
                for key, told, unit in _FIELD.findall(text[step.end() : step.end() + 2000])
            }
            if "Loss" in values:
                yield Point(int(step[1]), values, line.number, line.rank, line.time)
                yield Note("facts", None, line.number, {"steps": int(step[2])})
            return
        saved = _SAVED.search(text)
        if saved is not None:
            yield from self.finish()
            data = {"path": saved[3]} if saved[3] else {}
            yield Note(
                "checkpoint", self._of_epoch(int(saved[1]), int(saved[2])), line.number, data
            )
            return
        loaded = _LOADED.search(text)
        if loaded is not None:
            yield Note("resumed", self._of_epoch(int(loaded[1]), int(loaded[2])), line.number)

    def finish(self) -> Iterator[Item]:
        """The last loss that was drawn."""
        if self._held is not None:
            yield self._point(*self._held)
            self._held = None

    def _drawn(self, drawn: Drawn, line: Line) -> Iterator[Item]:
        held = self._held
        if held is None or held[0].title != drawn.title or drawn.done < held[0].done:
            yield from self.finish()
            self._held, self._counted = (drawn, line), False
            return
        same = held[0].texts == drawn.texts
        if same and (drawn.done == held[0].done or not self._counted):
            self._counted = self._counted or drawn.done > held[0].done
            self._held = drawn, line
            return
        yield from self.finish()
        # Equal losses one after another are told apart by the count that goes on.
        self._held, self._counted = (drawn, line), same

    def _point(self, drawn: Drawn, line: Line) -> Point:
        title = _TITLE.fullmatch(drawn.title.rpartition(": ")[2])
        epoch = int(title[1]) if title is not None else 0
        step = epoch * (drawn.total or 0) + drawn.done
        if step == self._told:
            step += 1  # cut off before the step was counted
        self._told = step
        return Point(step, {"epoch": float(epoch), **drawn.values}, line.number, line.rank)

    def _of_epoch(self, epoch: int, step: int) -> int | None:
        """Of all epochs, if that can be told: only within the first one."""
        return step if epoch == 0 else None


FORMAT = LineFormat(
    name="colossalai",
    title="ColossalAI",
    parser=by_rank(ColossalAI),
    needles=("oss=", "] Loss:", "checkpoint", "olossal", "Booster init max"),
    names={
        "Peak memory usage (MB)": ("memory", 2.0**20),
        "FWD time (s)": ("forward_time", 1.0),
        "BWD time (s)": ("backward_time", 1.0),
        "OPTIM time (s)": ("optimizer_time", 1.0),
    },
    weight=0.97,
)

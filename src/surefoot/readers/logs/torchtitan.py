"""torchtitan standard output, from the first lines without throughput to today's and its forks'."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pipes import with_unit
from surefoot.readers.numbers import NUMBER, number, whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line
from surefoot.readers.text.prefixes import timestamp

# `step:  4  loss:  7.62585  ...`: two blanks between fields, but where a page has lost them.
_STEP = re.compile(
    r"(?<![\w.])(validate )?[Ss]tep: {1,8}([\d,]{1,15})"
    r"(?:/([\d,]{1,15})(?: = [\d.]{1,12}%)?)?( {1,8})(?=[A-Za-z])"
)
_ITS_OWN = re.compile(r"\bmemory: {1,4}[\d.]{1,12}GiB\(|\b(?:tps|wps|WPS): ")
# memory: 66.91GiB(37.51%): the share of the device follows the size.
_FIELD = re.compile(
    rf"(?<!\S)([A-Za-z][\w/]{{0,40}}(?: [A-Za-z][\w/]{{0,20}}){{0,2}}): {{0,8}}({NUMBER})"
    rf"([A-Za-z%]{{0,8}})(?:\(({NUMBER})%\))?(?!\S)"
)
_SAVED = re.compile(r"Saving a [\w .]{1,60}checkpoint [\w .]{0,60}step,? (?:step )?(\d{1,12})")
_FINISHED = re.compile(r"Finished saving the checkpoint")
_LOADED = re.compile(
    r"Loading the checkpoint (?:at step (\d{1,12})|from \S{0,400}?step-(\d{1,12}))"
)
_STARTS = re.compile(r"Training starts at step (\d{1,12})")
_TOTAL = re.compile(r"total steps (\d{1,12})")
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) - ")


class TorchTitan(LineParser):
    """A record a line, printed by rank 0 or by all. A loss of -1 is told where none is computed."""

    def __init__(self) -> None:
        self._last = 0
        self._every: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        step = _STEP.search(text)
        if step is None:
            yield from self._told(line)
            return
        at, fields = whole(step[2]), text[step.end() : step.end() + 4000]
        if len(step[4]) == 1 and _ITS_OWN.search(fields) is None:
            return
        values: dict[str, float] = {}
        for key, printed, unit, share in _FIELD.findall(fields):
            told = with_unit(key, printed, unit)
            if told is not None:
                values.setdefault(*told)
                if (part := number(share)) is not None:
                    values.setdefault(f"{key} share (%)", part)
        # A record has a loss; the last field of a line that is cut may lack its number.
        if at is None or not any(key.lower().endswith("loss") for key in values):
            return
        if step[1]:
            values = {f"validation {key}": value for key, value in values.items()}
        date = _DATE.search(text, 0, step.start()) if line.time is None else None
        time = timestamp(date[1]) if date is not None else line.time
        yield Point(at, values, line.number, line.rank, time, evaluation=bool(step[1]))
        if not step[1] and at != self._last:
            self._last, self._every = at, at - self._last
        if step[3]:
            yield Note("facts", None, line.number, {"steps": whole(step[3])})

    def _told(self, line: Line) -> Iterator[Item]:
        saved = _SAVED.search(line.text)
        if saved is not None:
            yield Note("checkpoint", int(saved[1]), line.number)
            return
        if _FINISHED.search(line.text) is not None:
            # Of the step just made: the last one told, if each is told.
            yield Note("checkpoint", self._last if self._every == 1 else None, line.number)
            return
        loaded = _LOADED.search(line.text)
        if loaded is not None:
            step = int(loaded[1] or loaded[2])
            if step:
                yield Note("resumed", step, line.number)
            return
        starts = _STARTS.search(line.text)
        if starts is not None:
            total = _TOTAL.search(line.text)
            if total is not None:
                yield Note("facts", None, line.number, {"steps": int(total[1])})
            if int(starts[1]) > 1:
                yield Note("resumed", int(starts[1]) - 1, line.number)


FORMAT = LineFormat(
    name="torchtitan",
    title="torchtitan",
    parser=TorchTitan,
    needles=("step: ", "Step: ", "checkpoint", "Training starts at step"),
    names={
        "validation memory (GiB)": ("validation_memory", 2.0**30),
        "validation tps": ("validation_tokens_per_second", 1.0),
        "ms/step": ("step_time", 1e-3),
        "step_time": ("step_time", 1.0),
        "elapsed_time_per_step (s)": ("step_time", 1.0),
        "GPU time (ms)": ("gpu_time", 1e-3),
        "CPU wall time (ms)": ("step_time", 1e-3),
        # Tokens per second of one device: a rank divides its own tokens by its share of the model.
        "tps": ("tokens_per_second_per_device", 1.0),
        "wps": ("tokens_per_second_per_device", 1.0),
        "WPS": ("tokens_per_second_per_device", 1.0),
        "tflops": ("tflops_per_device", 1.0),
    },
    weight=0.97,
)

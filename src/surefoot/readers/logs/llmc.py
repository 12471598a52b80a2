"""llm.c: its ``main.log`` (``s:1 trl:10.9 lr:0.000002 norm:15.24``) and its standard output.

Standard output counts steps from 1, ``main.log`` from 0: each is read as it is printed.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_MAIN = re.compile(rf"\bs:(\d{{1,12}}) (?=(?:tel|trl|eval): ?(?:{NUMBER}))")
_MAIN_FIELD = re.compile(rf"\b([a-z]{{2,8}}): ?({NUMBER})")
_STEP = re.compile(
    rf"\bstep\s{{1,12}}(\d{{1,12}})/(\d{{1,12}}):? (?:\| )?"
    rf"(?=(?:train )?loss\s{{1,12}}(?:{NUMBER}))"
)
_FIELD = re.compile(
    rf"\b(train loss|loss|norm|lr|acc)\s{{1,12}}({NUMBER})(?: \(([+-]?(?:nan|inf|[\d.]+))z\))?"
)
_TIME = re.compile(r"\(?([\d.]{1,16}) ms\b")
_MFU = re.compile(r"([\d.]{1,10})% (?:\w{1,12} )?MFU")
_RATE = re.compile(r"([\d.]{1,16}) tok/s")
_VALIDATION = re.compile(rf"^\s{{0,8}}val loss\s{{1,12}}({NUMBER})\s*$")
_HELLASWAG = re.compile(r"\bHellaSwag: \d{1,9}/\d{1,9} = ([\d.]{1,12})")
_SAVED = re.compile(
    r"\bWriting (?:checkpoint at step (\d{1,12})|(?:model|state) to "
    r"(\S{1,400}?_(\d{5,12})\S{0,40}))"
)
_PROCESSES = re.compile(
    r"\|\s?(num_processes|vocab_size V|max_steps|train_num_batches)\s*\|\s?(\d{1,12})\s"
)
_FACT = {
    "num_processes": "world_size",
    "vocab_size V": "vocab_size",
    "train_num_batches": "steps",
}


class LlmC(LineParser):
    """Both kinds of lines."""

    def __init__(self) -> None:
        self._last = 0
        self._total: str | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _MAIN.search(text)
        if found is not None:
            values: dict[str, float] = {}
            for field in _MAIN_FIELD.finditer(text, found.end()):
                value = number(field[2])
                if value is not None:
                    values[field[1]] = value
            beside = "trl" not in values
            yield Point(int(found[1]), values, line.number, line.rank, line.time, beside)
            return
        found = _STEP.search(text)
        if found is not None:
            yield from self._record(line, found)
            return
        validation = _VALIDATION.match(text)
        if validation is not None:
            loss = number(validation[1])
            if loss is not None:
                yield Point(self._last, {"val loss": loss}, line.number, line.rank, line.time, True)
            return
        accuracy = _HELLASWAG.search(text)
        if accuracy is not None and (share := number(accuracy[1])) is not None:
            yield Point(self._last, {"HellaSwag": share}, line.number, line.rank, line.time, True)
            return
        saved = _SAVED.search(text)
        if saved is not None:
            data = {"path": saved[2]} if saved[2] else {}
            yield Note("checkpoint", int(saved[1] or saved[3]), line.number, data)
            return
        told = _PROCESSES.search(text)
        if told is not None and told[1] in _FACT:
            yield Note("facts", None, line.number, {_FACT[told[1]]: int(told[2])})

    def _record(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        self._last = int(found[1])
        text, values = line.text, dict[str, float]()
        for field in _FIELD.finditer(text, found.end()):
            value = number(field[2])
            if value is not None:
                values.setdefault(field[1], value)
            score = number(field[3]) if field[3] else None
            if score is not None:
                values.setdefault(f"{field[1]} z-score", score)
        # Where the device's peak is not known it prints -100% or -%: the patterns want no sign.
        for key, pattern in (("time (ms)", _TIME), ("MFU (%)", _MFU), ("tok/s", _RATE)):
            told = pattern.search(text, found.end())
            value = number(told[1]) if told and text[told.start() - 1] != "-" else None
            if value is not None:
                values[key] = value
        yield Point(self._last, values, line.number, line.rank, line.time)
        if found[2] != self._total:
            self._total = found[2]
            yield Note("facts", None, line.number, {"steps": int(found[2])})


FORMAT = LineFormat(
    name="llmc",
    title="llm.c",
    parser=LlmC,
    needles=("s:", "step", "val loss", "HellaSwag", "Writing", "| num_", "| vocab_", "| train_num"),
    names={
        "norm": ("grad_norm", 1.0),
        "time (ms)": ("step_time", 1e-3),
        "train loss": ("loss", 1.0),
        "HellaSwag": ("hellaswag_accuracy", 1.0),
        "eval": ("hellaswag_accuracy", 1.0),
    },
)

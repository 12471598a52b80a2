"""BigDL: ``[Epoch 1 12/32885][Iteration 2][Wall Clock 0.64s] Train 12 in 0.2seconds. ...``."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_HEAD = re.compile(
    r"\[Epoch (\d{1,9})(?:/\d{1,9})? (\d{1,12})/(\d{1,12})\]"
    r"\[Iteration (\d{1,12})\]\[Wall Clock ([\d.E-]{1,24})s\] ?"
)
_TRAIN = re.compile(r"\bTrain(?:ed)? ([\d.]{1,16}) (?:records )?in ([\d.E-]{1,24}) ?seconds")
_FIELD = re.compile(
    rf"\b([A-Za-z][a-z]{{1,20}}(?: [a-z]{{1,20}}){{0,4}}?)(?: is)? ({NUMBER})"
    r"(?:(s|seconds)?\b| (?:records?|img|images?) ?/ ?second)"
)
_MEAN_LOSS = re.compile(
    rf"\bLoss is \(?Loss: (?:{NUMBER}), count: \d{{1,12}}, Average Loss: ({NUMBER})"
)
_ACCURACY = re.compile(
    rf"\b(\w{{1,40}}) is Accuracy\(correct: \d{{1,12}}, count: \d{{1,12}}, accuracy: ({NUMBER})"
)
_SAVE = re.compile(r"\bSave model to (\S{1,400})")


class BigDL(LineParser):
    """Records of the distributed and the local optimizer, of all versions."""

    def __init__(self) -> None:
        self._last: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        head = _HEAD.search(text)
        if head is not None:
            self._last = int(head[4])
        start = head.end() if head else 0
        beside: dict[str, float] = {}
        mean = _MEAN_LOSS.search(text, start)
        if mean is not None and (loss := number(mean[1])) is not None:
            beside["validation Average Loss"] = loss
        accuracy = _ACCURACY.search(text, start)
        if accuracy is not None and (share := number(accuracy[2])) is not None:
            beside[f"validation {accuracy[1]}"] = share
        if beside:
            yield Point(self._last, beside, line.number, line.rank, line.time, evaluation=True)
            return
        if head is not None:
            values = self._values(text, head)
            if len(values) > 3:
                yield Point(self._last, values, line.number, line.rank, line.time)
                return
        saved = _SAVE.search(text)
        if saved is not None and "Wall Clock" in text:
            yield Note("checkpoint", self._last, line.number, {"path": saved[1]})

    def _values(self, text: str, head: re.Match[str]) -> dict[str, float]:
        found = {"Epoch": head[1], "records of epoch": head[2], "Wall Clock (s)": head[5]}
        train = _TRAIN.search(text, head.end())
        if train is not None:
            found["records"], found["time (s)"] = train[1], train[2]
        for field in _FIELD.finditer(text, train.end() if train else head.end()):
            unit = " (s)" if field[3] else ""
            found.setdefault(field[1] + unit, field[2])
        values = {key: number(text) for key, text in found.items()}
        return {key: value for key, value in values.items() if value is not None}


FORMAT = LineFormat(
    name="bigdl",
    title="BigDL",
    parser=BigDL,
    needles=("Wall Clock", "Average Loss: ", "is Accuracy("),
    names={
        "Loss": ("loss", 1.0),
        "time (s)": ("step_time", 1.0),
        "iteration time (s)": ("step_time", 1.0),
        "Throughput": ("samples_per_second", 1.0),
        "records": ("batch_size", 1.0),
        "Current learning rate": ("learning_rate", 1.0),
        "validation Average Loss": ("validation_loss", 1.0),
    },
)

"""mmengine and xtuner: ``Epoch(train) [1][200/735]  lr: ...``, ``Iter(train) [ 10/1000]  ...``.

By epoch, the step counted over the run is (epoch - 1) times the epoch's iterations plus the
iteration. mmcv, the ancestor, prints ``Epoch [1][50/500]`` and commas.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_HEAD = re.compile(
    r"\b(Epoch|Iter)(?:\((train|val|test)\))?\s{1,8}(?:\[\s{0,8}(\d{1,9})\])?"
    r"\[\s{0,12}(\d{1,12})/\s{0,8}(\d{1,12})\]\s{0,4}"
)
_SAVING = re.compile(r"\bSaving checkpoint at (\d{1,12}) (iterations|epochs)")
_RESUMED = re.compile(r"\bresumed (?:from )?epoch: (\d{1,9}), iter:? (\d{1,12})", re.IGNORECASE)
# XTuner's own trainers, without the loop of mmengine: `[Train] (Epoch 1) Step 10/940  lr: ...`
_TRAIN = re.compile(r"\[Train\] \(Epoch (\d{1,9})\) Step (\d{1,12})/(\d{1,12})\s{1,4}")
_GPUS = re.compile(r"^\s{0,16}(?:GPU number|Distributed training|num_gpus): (\d{1,6})\s*$")


class MMEngine(LineParser):
    """Records of training and of a validation's end; what it tells while validating is left out."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._per_epoch: int | None = None
        self._total: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        found = _HEAD.search(line.text)
        if found is not None and "o" not in found.group()[-1:]:
            yield from self._record(line, found)
            return
        saving = _SAVING.search(line.text)
        if saving is not None:
            step: int | None = int(saving[1])
            if saving[2] == "epochs":
                step = int(saving[1]) * self._per_epoch if self._per_epoch else self._last
            yield Note("checkpoint", step, line.number)
            return
        resumed = _RESUMED.search(line.text)
        if resumed is not None:
            yield Note("resumed", int(resumed[2]), line.number)
            return
        gpus = _GPUS.match(line.text)
        if gpus is not None:
            yield Note("facts", None, line.number, {"world_size": int(gpus[1])})
            return
        train = _TRAIN.search(line.text)
        if train is not None:
            epoch, self._last = float(train[1]), int(train[2])
            values = {"epoch": epoch, **_told(line.text, train.end())}
            if "max_memory (GB)" in values:  # printed so, counted in 2^30 bytes
                values["max_memory (GiB)"] = values.pop("max_memory (GB)")
            yield Point(self._last, values, line.number, line.rank, line.time)
            yield Note("facts", None, line.number, {"steps": int(train[3])})

    def _record(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        unit, mode, epoch = found[1], found[2] or "train", found[3]
        at, of = int(found[4]), int(found[5])
        told = _told(line.text, found.end())
        if mode == "train":
            values = told
            if unit == "Epoch":
                if epoch is None:
                    return
                self._per_epoch, self._last = of, max(0, int(epoch) - 1) * of + at
                values = {"epoch": float(epoch), **told}
            else:
                self._last = at
            if not told:
                return
            yield Point(self._last, values, line.number, line.rank, line.time)
            if unit == "Iter" and of != self._total:
                self._total = of
                yield Note("facts", None, line.number, {"steps": of})
            return
        if at != of or mode == "test":
            return
        step = self._last
        if step is None and unit == "Epoch" and epoch and self._per_epoch:
            step = int(epoch) * self._per_epoch
        values = {f"val {key}": value for key, value in told.items()}
        if values:
            yield Point(step, values, line.number, line.rank, line.time, evaluation=True)


def _told(text: str, start: int) -> dict[str, float]:
    """The numbers of a record; the time that is left (`18 days, 16:13:38`) is none of them."""
    told = {pair.key: pair.value for pair in pairs(text, start) if pair.told}
    return {key: value for key, value in told.items() if key.partition(" ")[0] != "eta"}


FORMAT = LineFormat(
    name="mmengine",
    title="mmengine",
    parser=by_rank(MMEngine),
    needles=(
        "Epoch",
        "Iter",
        "checkpoint at",
        "resumed",
        "Resumed",
        "GPU number",
        "Distributed",
        "[Train] (Epoch",
    ),
    names={
        "time": ("step_time", 1.0),
        "memory": ("memory", 2.0**20),
        "time (s)": ("step_time", 1.0),
        "max_memory (GiB)": ("memory", 2.0**30),
        "loss(reduced)": ("loss_reduced", 1.0),
        "val val/loss": ("validation_loss", 1.0),
    },
    weight=0.98,
)

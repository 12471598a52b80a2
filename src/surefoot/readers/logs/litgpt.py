"""LitGPT, Lit-GPT and TinyLlama: ``Epoch 1 | iter 32 step 2 | loss train: 10.985, val: n/a | ...``.

An iteration is one micro-batch, a step one update: the step counts. Of the lines of one step the
one that made the update (``(step)``, ``(optimizer.step)``) is the record.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_TRAIN = re.compile(r"\biter (\d{1,12}) step (\d{1,12})(?: \||:)(?= loss(?: train:)? )")
_EPOCH = re.compile(r"\b[Ee]poch (\d{1,9}) (?:\| )?iter ")
_VALIDATION = re.compile(
    rf"\b(?:iter|step) (\d{{1,12}}): val loss ({NUMBER}), val time: ([\d.]{{1,16}}) ?ms"
)
_FINAL = re.compile(rf"\bFinal evaluation \| val loss: ({NUMBER}) \| val ppl: ({NUMBER})")
_SAVING = re.compile(r"\bSaving (?:checkpoint|adapter weights|LoRA weights) to '?([^'\s]{1,400})")
_NUMBERED = re.compile(r"(?:step|iter)-(\d{1,12})")
_RESUMING = re.compile(r"\bResuming training from '?([^'\s]{1,400})")
_HOURS = re.compile(r"\s(?:remaining time:|or) [\d.]{1,16} (?:hours|days)\.?")


class LitGPT(LineParser):
    """Training lines of all generations, validation lines, checkpoints."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._updated: int | None = None
        self._validated: float | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _TRAIN.search(text)
        if found is not None:
            yield from self._train(line, found)
            return
        told = _VALIDATION.search(text)
        if told is not None:
            loss, time = number(told[2]), number(told[3])
            if loss is not None:
                values = {"val loss": loss}
                if time is not None:
                    values["val time (ms)"] = time
                self._validated = round(loss, 3)
                step = int(told[1]) if self._step is None else self._step
                yield Point(step, values, line.number, line.rank, line.time, evaluation=True)
            return
        told = _FINAL.search(text)
        if told is not None:
            last = {"val loss": number(told[1]), "val ppl": number(told[2])}
            values = {key: value for key, value in last.items() if value is not None}
            yield Point(self._step, values, line.number, line.rank, line.time, evaluation=True)
            return
        saving = _SAVING.search(text)
        if saving is not None:
            at = _NUMBERED.search(saving[1])
            place = int(at[1]) if at and at[0].startswith("step") else self._step
            yield Note("checkpoint", place, line.number, {"path": saving[1]})
            return
        resuming = _RESUMING.search(text)
        if resuming is not None:
            yield Note("resumed", None, line.number, {"path": resuming[1]})

    def _train(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        text, step = line.text, int(found[2])
        updates = "(step)" in text or "(optimizer.step)" in text
        if self._step is not None and step < self._step:
            self._updated = None
        self._step = step
        if not updates and self._updated == step:
            return  # a micro-batch of the step that comes next
        values: dict[str, float] = {}
        epoch = _EPOCH.search(text, 0, found.end())
        if epoch is not None:
            values["epoch"] = float(epoch[1])
        values["iter"] = float(found[1])
        validated = None
        for pair in pairs(_HOURS.sub(" ", text[found.end() :])):
            if pair.key == "val":
                validated = pair.value
            else:
                values.setdefault(pair.key, pair.value)
        yield Point(step, values, line.number, line.rank, line.time)
        self._updated = step
        # The validation loss is repeated on every line until there is a new one.
        if validated is not None and validated != self._validated:
            self._validated = validated
            value = {"val": validated}
            yield Point(step, value, line.number, line.rank, line.time, evaluation=True)


FORMAT = LineFormat(
    name="litgpt",
    title="LitGPT",
    parser=LitGPT,
    needles=("iter ", "val loss", "Saving ", "Resuming"),
    names={
        "loss train": ("loss", 1.0),
        "val": ("validation_loss", 1.0),
        "iter": ("micro_step", 1.0),
        "iter time (ms)": ("micro_step_time", 1e-3),
        "train time (ms)": ("micro_step_time", 1e-3),
    },
)

"""MaxText: ``completed step: 0, seconds: 1.2, TFLOP/s/device: 3.4, ..., loss: 10.8``."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_STEP = re.compile(r"\bcompleted step: (\d{1,12}), (?=[a-zA-Z])")
_EVAL = re.compile(
    r"\b(?:eval metrics after step: |average loss after step(?:=|: ))(\d{1,12})[,:] ?"
)
_SAVED = re.compile(r"\bsaved a checkpoint at step (\d{1,12})")
_RESTORED = re.compile(
    r"\brestoring (?:state )?from this run's directory (?:latest )?step (\d{1,12})"
)
_PARAMETERS = re.compile(r"\bnumber parameters: (\d{1,9}(?:\.\d{1,9})?) billion")
_DEVICES = re.compile(r"\bNum_devices: (\d{1,7})\b")


class MaxText(LineParser):
    """Training and evaluation lines of three generations."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _STEP.search(text)
        if found is not None:
            values = {pair.key: pair.value for pair in pairs(text, found.end())}
            if values:
                yield Point(int(found[1]), values, line.number, line.rank, line.time)
            return
        found = _EVAL.search(text)
        if found is not None:
            values = {}
            for pair in pairs(text, found.end()):
                key = pair.key if "eval" in pair.key else f"eval {pair.key}"
                values[key] = pair.value
            if values:
                step = int(found[1])
                yield Point(step, values, line.number, line.rank, line.time, evaluation=True)
            return
        saved = _SAVED.search(text)
        if saved is not None:
            yield Note("checkpoint", int(saved[1]), line.number)
            return
        restored = _RESTORED.search(text)
        if restored is not None:
            yield Note("resumed", int(restored[1]), line.number)
            return
        parameters = _PARAMETERS.search(text)
        if parameters is not None:
            count = round(float(parameters[1]) * 1e9)
            yield Note("facts", None, line.number, {"parameters": count})
            return
        devices = _DEVICES.search(text)
        if devices is not None:
            yield Note("facts", None, line.number, {"world_size": int(devices[1])})


FORMAT = LineFormat(
    name="maxtext",
    title="MaxText",
    parser=MaxText,
    needles=(
        "completed step", "after step", "checkpoint at step", "restoring", "number parameters",
        "Num_devices",
    ),
    names={
        "seconds": ("step_time", 1.0),
        "TFLOP/s": ("tflops_per_device", 1.0),  # of one device too, in 2023
        "total_weights": ("tokens", 1.0),  # the counted tokens of the batch
        "eval avg_loss": ("validation_loss", 1.0),
        "eval_average_loss": ("validation_loss", 1.0),
    },
)  # fmt: skip

"""NeMo 1 and 2 and Megatron-Bridge: printed records, progress bars, and Megatron's own lines."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs import megatron
from surefoot.readers.logs._drawn import Drawn, drawing
from surefoot.readers.logs._pipes import fields
from surefoot.readers.logs.megatron import Megatron
from surefoot.readers.numbers import as_whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_RECORD = re.compile(r"\bTraining epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}|inf)(?= \|)")
_SAVED = re.compile(
    r"Async checkpoint save for step (\d{1,12}) \((\S{1,1000})\) finalized successfully"
    r"|Successfully saved checkpoint from iteration (\d{1,12}) to (\S{1,1000})"
)
_RESTORED = re.compile(r"Restored all states from the checkpoint (?:file )?at (\S{1,1000})")
_STEP_OF_PATH = re.compile(r"\bstep=(\d{1,12})")
_RUNNING = ("global_step", "epoch")


class NeMo(LineParser):
    """Records by ``global_step``, which is 0 for the first step, as checkpoints name it.

    A validation loss is repeated on each record until the next validation; it is told once, with
    the record that shows it first.
    """

    def __init__(self) -> None:
        self._validation: dict[str, float] = {}
        self._bar: tuple[int, float | None] | None = None
        self._lag = 1

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        record = _RECORD.search(text)
        if record is not None:
            values = dict(fields(text[record.end() :]))
            step = as_whole(values.pop("global_step", None))
            at = int(record[2]) if step is None else step
            yield from self._tell(at, {"epoch": float(record[1]), **values}, line)
            return
        if "reduced_train_loss=" in text:
            drawn = drawing(text)
            if drawn is not None:
                yield from self._drawn(drawn, line)
        saved = _SAVED.search(text)
        if saved is not None:
            path = saved[2] or saved[4]
            told = _STEP_OF_PATH.search(path)
            at = int(told[1]) if told is not None else int(saved[1] or saved[3])
            yield Note("checkpoint", at, line.number, {"path": path})
            return
        restored = _RESTORED.search(text)
        if restored is not None:
            told = _STEP_OF_PATH.search(restored[1])
            yield Note("resumed", int(told[1]) if told is not None else None, line.number)

    def _drawn(self, drawn: Drawn, line: Line) -> Iterator[Item]:
        values = {key: value for key, value in drawn.values.items() if key not in _RUNNING}
        step = self._step(drawn)
        loss = values.get("reduced_train_loss")
        if (step, loss) == self._bar:  # drawn again: only a validation may be new
            values = {key: value for key, value in values.items() if key.startswith("val")}
        self._bar = step, loss
        yield from self._tell(step, values, line)

    def _step(self, drawn: Drawn) -> int:
        """The global step; the bar's count where tqdm has cut it to three digits (1.23e+3)."""
        told = as_whole(drawn.values.get("global_step"))
        text = drawn.texts.get("global_step", "")
        if told is None:
            return max(0, drawn.done - self._lag)
        if "e" not in text:
            if 0 <= drawn.done - told <= 2:
                self._lag = drawn.done - told
            return told
        counted = drawn.done - self._lag
        return counted if abs(counted - told) <= 0.006 * told else told

    def _tell(self, step: int, values: dict[str, float], line: Line) -> Iterator[Item]:
        held_out = {key for key in values if key.startswith(("val_", "validation_"))}
        evaluated = {key: values[key] for key in held_out}
        trained = {key: value for key, value in values.items() if key not in held_out}
        if trained:
            yield Point(step, trained, line.number, line.rank, line.time)
        if evaluated and evaluated != self._validation:
            self._validation = evaluated
            yield Point(step, evaluated, line.number, line.rank, None, evaluation=True)


_STEP_TIME = re.compile(
    r"\bStep Time : (\d{1,12}\.\d{1,6})s GPU utilization: (\d{1,9}\.\d{1,6})MODEL_TFLOP/s/GPU"
)


class Bridge(LineParser):
    """Megatron's lines; before each record one with the throughput, which Megatron does not print.

    Nothing is told before the first of these, so that Megatron's own logs are not taken for these.
    """

    def __init__(self) -> None:
        self._megatron = Megatron()
        self._throughput: float | None = None
        self._seen = False

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        speed = _STEP_TIME.search(line.text) if "Step Time : " in line.text else None
        if speed is not None:  # its step time is that of the record, to two places
            self._throughput, self._seen = float(speed[2]), True
            return
        for item in self._megatron.feed(line):
            if isinstance(item, Note):
                yield item
            elif isinstance(item, Point) and self._seen:
                if item.step is not None and not item.evaluation and self._throughput is not None:
                    item.values["GPU utilization (MODEL_TFLOP/s/GPU)"] = self._throughput
                    self._throughput = None
                yield item


FORMATS = (
    LineFormat(
        name="nemo",
        title="NeMo",
        parser=NeMo,
        needles=(
            "Training epoch ", "reduced_train_loss=", "Async checkpoint save for step",
            "Successfully saved checkpoint", "Restored all states",
        ),
        names={
            "loss": ("running_loss", 1.0),  # Lightning's mean of the last bars
            "peak_memory_usage": ("memory", 1.0),
            "train_step_timing in s": ("step_time", 1.0),
            "train_epoch_timing in s": ("epoch_time", 1.0),
            "validation_step_timing in s": ("validation_step_time", 1.0),
        },
        weight=1.0,
    ),
    LineFormat(
        name="megatron-bridge",
        title="Megatron-Bridge",
        parser=Bridge,
        needles=("Step Time : ", *megatron.NEEDLES),
        names={
            **megatron.NAMES,
        },
        weight=1.0,
    ),
)  # fmt: skip

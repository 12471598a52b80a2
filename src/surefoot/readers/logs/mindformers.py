"""MindFormers and MindSpore: ``{ Epoch:[  1/  2], step:[   10/  100], loss: 10.6, ...``."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_N = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,4})?|\.\d{1,40}|nan|inf)"
_STEP = re.compile(
    r"\{ {0,4}(?:Epoch: ?\[ {0,8}(\d{1,9})/ {0,8}(\d{1,9})\], {1,4})?"
    r"step: ?\[ {0,12}(\d{1,12})/ {0,12}(\d{1,12})\],? "
)
# loss:[10.64/10.60] is that of the step and the mean; a norm is [1.2], or has no colon before it.
_FIELD = re.compile(
    rf"(?<![\w])([A-Za-z][A-Za-z_]{{1,40}}(?: [a-z]{{1,12}})?): ?\[? {{0,4}}({_N})"
    r"(?:/[^\],]{1,24})?\]?(ms|s|T)?(?=\s{0,4}[,}]|\s*$)"
)
_OVERFLOW = re.compile(r"overflow cond: {0,2}\[? {0,2}True")
_SPEED = re.compile(rf"(?<![\w.])({_N}) samples/s/p\b")
_SKIPPED = re.compile(r"\bis_skip: \[? {0,4}True")
_MONITOR = re.compile(rf"\bepoch: (\d{{1,9}}),? step: (\d{{1,12}}), loss is ({_N})(?![\w.])")


class MindFormers(LineParser):
    """Records of its loss monitor, and of MindSpore's. Steps are counted over all epochs."""

    def __init__(self) -> None:
        self._epoch = 0
        self._before = 0
        self._last = 0

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        step = _STEP.search(text)
        if step is not None:
            yield from self._record(line, step)
            return
        speed = _SPEED.search(text) if "samples/s/p" in text else None
        if speed is not None:
            values = {"samples/s/p": float(speed[1])}
            yield Point(None, values, line.number, line.rank, line.time)
            return
        if "is_skip" in text:
            if _SKIPPED.search(text) is not None:
                yield Note("update_skipped", None, line.number)
            return
        monitor = _MONITOR.search(text)
        if monitor is not None:
            epoch, of_epoch = int(monitor[1]), int(monitor[2])
            if epoch == self._epoch + 1 and self._epoch:
                self._before = self._last
            elif epoch != self._epoch:
                self._before = 0 if epoch == 1 else self._before
            self._epoch, self._last = epoch, self._before + of_epoch
            values = {"loss": float(monitor[3]), "epoch": float(epoch)}
            yield Point(self._last, values, line.number, line.rank, line.time)

    def _record(self, line: Line, step: re.Match[str]) -> Iterator[Item]:
        rest = line.text[step.end() : step.end() + 4000].replace("global_norm [", "global_norm: [")
        values: dict[str, float] = {}
        if step[1]:
            values["epoch"] = float(step[1])
        for key, told, unit in _FIELD.findall(rest):
            name = f"{key} (TFLOPS)" if unit == "T" else f"{key} ({unit})" if unit else key
            values.setdefault(name, float(told))
        if "loss" not in values:
            return
        epoch, each = int(step[1] or 1), int(step[4])
        at = (epoch - 1) * each + int(step[3])
        yield Point(at, values, line.number, line.rank, line.time)
        yield Note("facts", None, line.number, {"steps": int(step[2] or 1) * each})
        if _OVERFLOW.search(rest) is not None:
            yield Note("update_skipped", at, line.number)


FORMAT = LineFormat(
    name="mindformers",
    title="MindFormers",
    parser=by_rank(MindFormers),
    needles=("step:[", "step: [", "samples/s/p", "is_skip", ", loss is "),
    names={
        "train_throughput_per_npu (TFLOPS)": ("tflops_per_device", 1.0),
        "throughput (TFLOPS)": ("tflops_per_device", 1.0),
        "per_step_time (ms)": ("step_time", 1e-3),
        "aux_loss": ("load_balancing_loss", 1.0),
        "samples/s/p": ("samples_per_second_per_device", 1.0),
    },
    weight=0.97,
)

"""Composer and LLM Foundry: ``[batch=1/100]:`` and below it indented lines ``Train key: value``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_HEAD = re.compile(
    r"(?:\[epoch=(\d{1,9})(?:/\d{1,9})?\])?"
    r"\[(batch|token|sample|epoch|iteration|second)=(\d{1,15})(?:/(\d{1,15}))?\](?::\s*$|\s*$)"
)
_EVAL = re.compile(
    r"\[Eval batch=(\d{1,12})/(\d{1,12})\] Eval on ([\w./-]{1,80}) data(?::\s*$|\s*$)"
)
_FIELD = re.compile(rf"\s{{1,16}}(?:(Train|Eval) )?([A-Za-z][^:\n]{{0,200}}): ({NUMBER})\s*$")
_TEXT_FIELD = re.compile(r"\s{1,16}(?:Train|Eval) [^:\n]{1,200}: ")
_SAVED = re.compile(r"\b[Cc]heckpoint (?:locally )?saved to:? (\S{0,400}?ba(\d{1,12})\S{0,80})")
_RESUMED = re.compile(r"\b[Ll]oading checkpoint from (\S{0,400}?ba(\d{1,12})\S{0,80})")
_LOSSES = ("LanguageCrossEntropy", "CrossEntropy", "loss", "LanguageCrossEntropyLoss")


@dataclass(slots=True)
class _Block:
    line: Line
    step: int | None
    label: str | None
    values: dict[str, float] = field(default_factory=dict)


class Composer(LineParser):
    """Puts the lines of a block together.

    Where the run's length is in tokens or samples, the heading tells those; the batch is then the
    one after the batches finished so far, which ``time/batch`` counts.
    """

    def __init__(self) -> None:
        self._open: dict[int | None, _Block] = {}
        self._last: int | None = None
        self._total: str | None = None
        self._set: str | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        block = self._open.get(line.rank)
        if block is not None:
            told = _FIELD.match(text)
            if told is not None:
                value = number(told[3])
                if value is not None:
                    block.values.setdefault(told[2], value)
                return
            if _TEXT_FIELD.match(text):
                return
            yield from self._close(line.rank)
        evaluation = _EVAL.search(text)
        if evaluation is not None:
            if evaluation[1] == evaluation[2]:
                self._open[line.rank] = _Block(line, None, evaluation[3])
            return
        head = _HEAD.search(text)
        if head is not None:
            yield from self._begin(line, head)
            return
        saved = _SAVED.search(text)
        if saved is not None:
            yield Note("checkpoint", int(saved[2]), line.number, {"path": saved[1]})
            return
        resumed = _RESUMED.search(text)
        if resumed is not None:
            yield Note("resumed", int(resumed[2]), line.number, {"path": resumed[1]})

    def finish(self) -> Iterator[Item]:
        """The block that the file ends with."""
        for rank in list(self._open):
            yield from self._close(rank)

    def _begin(self, line: Line, head: re.Match[str]) -> Iterator[Item]:
        epoch, unit, at, of = head[1], head[2], int(head[3]), head[4]
        block = self._open[line.rank] = _Block(line, None, None)
        if unit == "batch" and (epoch is None or epoch == "1" or of):
            block.step = at if epoch is None else (int(epoch) - 1) * int(of or 0) + at
        elif unit != "batch":
            block.values[unit] = float(at)
        if epoch is not None:
            block.values["epoch"] = float(epoch)
        if unit == "batch" and epoch is None and of and of != self._total:
            self._total = of
            yield Note("facts", None, line.number, {"steps": int(of)})

    def _close(self, rank: int | None) -> Iterator[Item]:
        block = self._open.pop(rank, None)
        if block is None:
            return
        values, line = block.values, block.line
        if block.label is not None:
            for loss in _LOSSES:
                key = f"metrics/{block.label}/{loss}"
                if key in values and self._set in (None, block.label):
                    self._set = block.label  # of several sets the first one told stands for all
                    values = {"validation loss": values[key], **values}
                    break
            if values:
                yield Point(self._last, values, line.number, rank, line.time, evaluation=True)
            return
        step = block.step
        done = values.get("time/batch", values.get("trainer/global_step"))
        if step is None and done is not None and done == done and 0 <= done < 2**53:
            step = int(done) + 1
        if step is None or not values.keys() - {"epoch"}:
            return
        self._last = step
        total = values.get("loss/train/total")
        if total is not None:  # also where a metric of the same name comes before it
            values = {"loss/train/total": total, **values}
        yield Point(step, values, line.number, rank, line.time)


FORMAT = LineFormat(
    name="composer",
    title="Composer",
    parser=Composer,
    needles=("[batch=", "[epoch=", "[token=", "[sample=", "[Eval batch=", ": ", "heckpoint"),
    names={
        "loss/train/total": ("loss", 1.0),
        "metrics/train/LanguageCrossEntropy": ("loss", 1.0),
        "LanguageCrossEntropy": ("loss", 1.0),
        "metrics/train/LanguagePerplexity": ("perplexity", 1.0),
        "Perplexity": ("perplexity", 1.0),
        "throughput/tokens_per_sec": ("tokens_per_second", 1.0),
        "throughput/device/tokens_per_sec": ("tokens_per_second_per_device", 1.0),
        "throughput/samples_per_sec": ("samples_per_second", 1.0),
        "throughput/device/mfu": ("mfu", 1.0),
        "throughput/device/flops_per_sec": ("tflops_per_device", 1e-12),
        "l2_norm/grad/global": ("grad_norm", 1.0),
        "time/token": ("consumed_tokens", 1.0),
        "time/sample": ("consumed_samples", 1.0),
        "memory/peak_allocated_mem": ("memory", 1e9),
        "memory/current_allocated_mem": ("memory_allocated", 1e9),
        "memory/peak_reserved_mem": ("memory_reserved", 1e9),
    },
)

"""OLMo and OLMo-core: ``[step=1/10000,epoch=0]`` and below it lines ``    key=value``.

OLMo writes evaluations as further blocks without a step, OLMo-core as ``Finished lm evals in 3.2
seconds. Metrics:``: both are of the step told last.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_HEAD = re.compile(
    r"\[step=(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})"
    r"(?:/(\d{1,3}(?:,\d{3}){1,4}|[^\s,\]]{1,24}))?(?:,epoch=(\d{1,9}))?(?:,eta=[^\]\n]{0,60})?\]"
)
_FIELD = re.compile(rf"\s{{0,16}}([A-Za-z][^=\n]{{0,200}})=((?:{NUMBER})[KMBGT]?)\s*$")
_TEXT = re.compile(r"\s{1,16}[A-Za-z][\w/ ().-]{0,200}=\S{0,80}\s*$")
_EVALUATION = re.compile(r"\bFinished (\S{1,80}) evals in [\d.]{1,16} seconds\. Metrics:")
_SAVED = re.compile(
    r"\b[Cc]heckpoint (?:for step (\d{1,12}) )?saved to '?"
    r"([^'\s]{1,400}?step(\d{1,12})[^'\s]{0,80})"
)
_SAVED_AT = re.compile(r"\bCheckpoint for step (\d{1,12}) saved successfully")
_RESTORED = re.compile(
    r"\b(?:Resuming from checkpoint|Attempting to load (?:unsharded |sharded )?checkpoint from|"
    r"Loading checkpoint from) '?([^'\s]{0,400}?step(\d{1,12})[^'\s]{0,80})"
)
_WORLD = re.compile(r"\bworld size:? (\d{1,7})\b", re.IGNORECASE)


@dataclass(slots=True)
class _Block:
    line: Line
    step: int | None
    group: str
    values: dict[str, float] = field(default_factory=dict)


class Olmo(LineParser):
    """Puts the lines of a block together; a block ends where a line is none of its own."""

    def __init__(self) -> None:
        self._open: dict[int | None, _Block] = {}
        self._last: int | None = None
        self._set: str | None = None
        self._total: str | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text, rank = line.text, line.rank
        told = _FIELD.match(text)
        if told is not None:
            key = told[1].strip()
            if rank not in self._open and key.startswith("eval/"):
                self._open[rank] = _Block(line, None, "")  # headed by the evaluator's name alone
            value = number(told[2])
            block = self._open.get(rank)
            if block is not None and value is not None:
                block.values.setdefault(f"{block.group}{key}", value)
            return
        if rank in self._open and _TEXT.match(text):
            return  # a field that is no number ends no block
        yield from self._close(rank)
        head = _HEAD.search(text)
        if head is not None:
            self._last = int(head[1].replace(",", ""))
            self._open[rank] = block = _Block(line, self._last, "")
            if head[3]:
                block.values["epoch"] = float(head[3])
            total = (head[2] or "").replace(",", "")
            if total.isdecimal() and total != self._total:
                self._total = total
                yield Note("facts", None, line.number, {"steps": int(total)})
            return
        evaluation = _EVALUATION.search(text)
        if evaluation is not None:
            self._open[rank] = _Block(line, None, f"eval/{evaluation[1]}/")
            return
        yield from self._notes(line)

    def finish(self) -> Iterator[Item]:
        """The block that the file ends with."""
        for rank in list(self._open):
            yield from self._close(rank)

    def _close(self, rank: int | None) -> Iterator[Item]:
        block = self._open.pop(rank, None)
        if block is None:
            return
        line, step = block.line, block.step
        beside = {key: value for key, value in block.values.items() if key.startswith("eval/")}
        values = {key: value for key, value in block.values.items() if key not in beside}
        if step is not None and values.keys() - {"epoch"}:
            yield Point(step, values, line.number, rank, line.time)
        for key, value in beside.items():
            if key.endswith(("/CrossEntropyLoss", "/CE loss")):
                self._set = self._set or key
            if key == self._set:  # of several sets the first one told stands for all
                beside = {"validation loss": value, **beside}
                break
        if beside:
            at = self._last if step is None else step
            yield Point(at, beside, line.number, rank, line.time, evaluation=True)

    def _notes(self, line: Line) -> Iterator[Item]:
        saved = _SAVED.search(line.text)
        if saved is not None:
            data = {"path": saved[2]}
            yield Note("checkpoint", int(saved[1] or saved[3]), line.number, data)
            return
        saved = _SAVED_AT.search(line.text)
        if saved is not None:
            yield Note("checkpoint", int(saved[1]), line.number)
            return
        restored = _RESTORED.search(line.text)
        if restored is not None and int(restored[2]) > 0:
            yield Note("resumed", int(restored[2]), line.number, {"path": restored[1]})
            return
        world = _WORLD.search(line.text)
        if world is not None:
            yield Note("facts", None, line.number, {"world_size": int(world[1])})


FORMAT = LineFormat(
    name="olmo",
    title="OLMo",
    parser=Olmo,
    needles=("=", "evals in", "checkpoint", "Checkpoint", "world size"),
    names={
        "train/CrossEntropyLoss": ("loss", 1.0),
        "train/CE loss": ("loss", 1.0),
        "train/PPL": ("perplexity", 1.0),
        "train/Perplexity": ("perplexity", 1.0),
        "train/Z loss": ("z_loss", 1.0),
        "train/ZLoss": ("z_loss", 1.0),
        "optim/total grad norm": ("grad_norm", 1.0),
        "optim/LR (group 0)": ("learning_rate", 1.0),
        "optim/LR": ("learning_rate", 1.0),
        "optim/step skipped": ("update_skipped", 1.0),
        "throughput/total tokens": ("consumed_tokens", 1.0),
        "throughput/device/TPS": ("tokens_per_second_per_device", 1.0),
        "throughput/device/tokens_per_second": ("tokens_per_second_per_device", 1.0),
        "throughput/device/MFU": ("mfu", 0.01),
        "gpu_memory/GPU active mem (GiB)": ("memory", 2.0**30),
        "gpu_memory/GPU reserved mem (GiB)": ("memory_reserved", 2.0**30),
        "throughput/device/TPS (actual avg)": ("mean_tokens_per_second_per_device", 1.0),
        "throughput/device/MFU (actual avg)": ("mean_mfu", 0.01),
        "System/Peak GPU Memory (MB)": ("memory", 1e6),
    },
)

"""Megatron-LM standard output, old and new: Megatron-DeepSpeed, MindSpeed-LLM, ms-swift too."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pipes import STEP, fields
from surefoot.readers.numbers import whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_VALIDATION = re.compile(
    r"(validation|test) loss at (?:iteration|the end of training)\s*:?\s*(?:iteration\s+)?(\d+)?"
)
_SAVED = re.compile(r"successfully saved checkpoint (?:at|from) iteration\s+(\d+)(?: to (\S+))?")
_LOADED = re.compile(r"successfully loaded checkpoint .{0,400}? at iteration\s+(\d+)")
_TIMERS = re.compile(
    r"\s*(?:time \((m?s)\)|(?:\[Rank \d+\] )?\(?after \d+ iterations\)? memory \((MB|GB|B)\)) \|"
)
_WORLD = re.compile(r"using world size:\s*(\d+)")


class Megatron(LineParser):
    """Records, validation lines and what is told of checkpoints."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        if "validation" in text or "test loss" in text:
            found = _VALIDATION.search(text)
            if found is not None:
                yield from self._validation(line, found)
                return
        timers = _TIMERS.match(text)
        if timers is not None:
            yield from self._beside(line, timers)
            return
        step = STEP.search(text) if "|" in text else None
        if step is not None:
            yield from self._record(line, step)
            return
        saved = _SAVED.search(text)
        if saved is not None:
            data = {"path": saved[2]} if saved[2] else {}
            yield Note("checkpoint", int(saved[1]), line.number, data)
            return
        loaded = _LOADED.search(text)
        if loaded is not None:
            yield Note("resumed", int(loaded[1]), line.number)
            return
        world = _WORLD.search(text)
        if world is not None:
            yield Note("facts", None, line.number, {"world_size": int(world[1])})

    def _record(self, line: Line, step: re.Match[str]) -> Iterator[Item]:
        at = whole(step[1])
        if at is None:
            return
        # Before the iteration: samples/sec of GPT-NeoX. A timer's line has no iteration at all.
        head, tail = line.text[: step.start()], line.text[step.end() :]
        values: dict[str, float] = {}
        for key, value, _ in fields(f"{head.rpartition(']')[2]}|{tail}"):
            values.setdefault(key, value)
        if values:
            yield Point(at, values, line.number, line.rank, line.time)
        if step[2]:
            yield Note("facts", None, line.number, {"steps": whole(step[2])})

    def _beside(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        """Timers and memory, printed on lines of their own after the record."""
        group = "memory" if found[1] is None else "time"
        unit = found[1] or found[2]
        values: dict[str, float] = {}
        for key, value, _ in fields(line.text[found.end() :]):
            values[f"{group}/{key} ({unit})"] = value
        if values:
            yield Point(None, values, line.number, line.rank, line.time)

    def _validation(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        prefix = found[1]
        values: dict[str, float] = {}
        for key, value, _ in fields(line.text[found.end() :]):
            stem = key.removesuffix(" value").strip()
            stem = "loss" if stem in ("lm loss", "lm-loss", "lm_loss") else stem
            stem = "perplexity" if stem in ("lm loss PPL", "lm_loss PPL") else stem
            values[f"{prefix} {stem}"] = value
        step = int(found[2]) if found[2] else None
        if values:
            yield Point(step, values, line.number, line.rank, line.time, evaluation=True)


FORMAT = LineFormat(
    name="megatron",
    title="Megatron-LM",
    parser=Megatron,
    needles=("iteration", "world size", "time ("),
    weight=0.95,
)

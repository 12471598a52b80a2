"""Megatron-LM standard output, old and new, and of its descendants.

Read are Megatron-LM since 2019, Megatron-DeepSpeed, MindSpeed-LLM, ms-swift and epfLLM. What a line
tells depends on no line before it.
"""

import re
from collections.abc import Iterator, Mapping

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pipes import fields
from surefoot.readers.numbers import whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line
from surefoot.readers.text.prefixes import timestamp

# ` iteration       10/     100 |`; Argonne's fork has `iteration=`, DeepSpeed-RL `/infinity`.
# NeMo's `epoch 0, iteration 5/19` and nanotron's `iteration: 5 / 19` are of other formats.
STEP = re.compile(r"(?<!, )\biteration[ =]\s{0,12}(\d{1,12})(?:/\s{0,12}(\d{1,12}|infinity))?\s*\|")
_VALIDATION = re.compile(
    r"\b(validation|test) (?:loss|results) at ([^|]{1,120}?)\s*\|", re.IGNORECASE
)
_AT = re.compile(r"\biteration (\d{1,12})")
_OTHER_SET = re.compile(r"\[([\w./-]{1,60})\]")
_SAVED = re.compile(
    r"successfully saved (?:local )?checkpoint (?:at|from) iteration\s{1,12}(\d{1,12})"
    r"(?: to (\S{1,4096}))?"
)
_SAVED_2019 = re.compile(r"successfully saved (\S{0,300}\biter_(\d{7})\S{0,300})")
_LOADED = re.compile(r"successfully loaded checkpoint .{0,400}? at iteration\s{1,12}(\d{1,12})")
_LOADED_2019 = re.compile(r"successfully loaded \S{0,300}\biter_(\d{7})")
_TIMES = re.compile(r"\btime \((m?s)\) \|")
_MEMORY = re.compile(
    r"(?:\[Rank (\d{1,6})\] )?\(?after (\d{1,12}) iterations\)? memory \(([MG]B)\) \|"
)
_TIMER = re.compile(
    r"\s{2,8}([a-z][\w/-]{1,60}) \.{2,60}: "
    r"(?:\(\d{1,20}\.\d{1,9}, (\d{1,20}\.\d{1,9})\)|(\d{1,20}\.\d{1,9}))\s{0,8}"
)
_WORLD = re.compile(r"using world size: (\d{1,9})")
_VOCABULARY = re.compile(r"padded vocab \(size: \d{1,9}\) .{0,60}\(new size: (\d{1,9})\)")
# Losses and rates are printed with an exponent; a last one without was cut: `| lm loss: 2.50`.
_EXPONENT = re.compile(r"\dE[+-]\d\d \|")
_CUT = re.compile(r"[^|:]{0,60}(?:loss|rate): {1,4}[\d.]{1,12}(?:E[+-]?\d?)?\s{0,4}")
_DATE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)\]")

_SETUP = ("time/model", "time/train/valid/test", "time/load-checkpoint")

NAMES: Mapping[str, tuple[str, float]] = {
    # What Megatron calls MB and GB are 2^20 and 2^30 bytes.
    "memory/allocated (MB)": ("memory_allocated", 2.0**20),
    "memory/max allocated (MB)": ("memory", 2.0**20),
    "memory/reserved (MB)": ("memory_reserved_now", 2.0**20),
    "memory/max reserved (MB)": ("memory_reserved", 2.0**20),
    "memory/cached (MB)": ("memory_reserved_now", 2.0**20),
    "memory/max cached (MB)": ("memory_reserved", 2.0**20),
    # Megatron-Bridge and FlagScale count in 10^9.
    "memory/mem-allocated-gigabytes (GB)": ("memory_allocated", 1e9),
    "memory/mem-max-allocated-gigabytes (GB)": ("memory", 1e9),
    "memory/mem-max-reserved-gigabytes (GB)": ("memory_reserved", 1e9),
    "GPU utilization (MODEL_TFLOP/s/GPU)": ("tflops_per_device", 1.0),
    "max_memory_allocated(GB)": ("memory", 2.0**30),
    "max_memory_reserved(GB)": ("memory_reserved", 2.0**30),
    # A timer of DeepSpeed: the optimizer's step, not the iteration.
    "time/step (ms)": ("time_step", 1e-3),
    "z_loss": ("router_z_loss", 1.0),
    "seq_load_balancing_loss": ("load_balancing_loss", 1.0),
    "moe loss": ("load_balancing_loss", 1.0),
    "tokens per GPU (tokens/s/GPU)": ("tokens_per_second_per_device", 1.0),  # Primus
    "tokens_per_gpu_per_second_tgs": ("tokens_per_second_per_device", 1.0),
}


class Megatron(LineParser):
    """Records, validation lines and what is told of checkpoints."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        if "|" in text:
            # A text is sought before a pattern: most long lines hold none of them.
            validation = _VALIDATION.search(text) if " at " in text else None
            if validation is not None:
                yield from self._validation(line, validation)
                return
            step = STEP.search(text) if "iteration" in text else None
            if step is not None:
                yield from self._record(line, step)
                return
            yield from self._beside(line)
            return
        timer = _TIMER.fullmatch(text) if "..: " in text else None
        if timer is not None:  # of the block below `(min, max) time across ranks (ms):`
            values = {f"time/{timer[1]} (ms)": float(timer[2] or timer[3])}
            yield Point(None, values, line.number, line.rank, line.time)
            return
        yield from self._told(line)

    def _record(self, line: Line, step: re.Match[str]) -> Iterator[Item]:
        # Before the iteration: the date, samples/sec of GPT-NeoX, episodes of RL.
        head, tail = line.text[: step.start()], line.text[step.end() :]
        memory = _MEMORY.search(tail) if "memory (" in tail else None
        if memory is not None:  # written right behind the record
            tail = tail[: memory.start()]
        before, _, last = tail.rpartition("|")
        if last.strip() and _EXPONENT.search(tail) is not None and _CUT.fullmatch(last[:100]):
            tail = before  # the file ends in the middle of a number
        values: dict[str, float] = {}
        for key, value in fields(f"{head.rpartition(']')[2]}|{tail}"):
            values.setdefault(key, value)
        if values:
            date = _DATE.search(head) if line.time is None else None
            time = timestamp(date[1]) if date is not None else line.time
            yield Point(int(step[1]), values, line.number, line.rank, time)
        if step[2] and step[2] != "infinity":
            yield Note("facts", None, line.number, {"steps": int(step[2])})
        if memory is not None:
            yield from self._beside(line)

    def _beside(self, line: Line) -> Iterator[Item]:
        """Timers and memory, printed on lines of their own after the record."""
        times = _TIMES.search(line.text) if "time (" in line.text else None
        if times is not None:
            told = fields(line.text[times.end() :])
            values = {f"time/{key} ({times[1]})": value for key, value in told}
            # How long the start took is of no step.
            if values and not any(key.startswith(_SETUP) for key in values):
                yield Point(None, values, line.number, line.rank, line.time)
            return
        # Ranks that write at once glue their records together.
        found = list(_MEMORY.finditer(line.text)) if "memory (" in line.text else []
        for record, after in zip(found, [*found[1:], None], strict=False):
            told = fields(line.text[record.end() : after.start() if after else None])
            values = {f"memory/{key} ({record[3]})": value for key, value in told}
            if values:
                rank = int(record[1]) if record[1] else line.rank
                at = int(record[2])  # told after the record, by ranks that may lag
                yield Point(at, values, line.number, rank, line.time, evaluation=True)

    def _validation(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        """`validation loss at iteration 10 on test set | lm loss value: ... | lm loss PPL: ...`."""
        where = found[2]
        test = found[1].lower() == "test" or "on test set" in where or "for test data" in where
        other = _OTHER_SET.search(where)
        prefix = ("test" if test else "validation") + (f" [{other[1]}]" if other else "")
        values: dict[str, float] = {}
        for key, value in fields(line.text[found.end() :]):
            stem = key.removesuffix(" value").strip()
            plain = stem.lower().replace("-", " ").replace("_", " ")
            if plain in ("lm loss", "loss"):
                stem = "loss"
            elif plain in ("lm loss ppl", "lm ppl", "ppl"):
                stem = "perplexity"
            values.setdefault(f"{prefix} {stem}", value)
        if values:
            at = _AT.search(where)
            step = int(at[1]) if at is not None else None
            yield Point(step, values, line.number, line.rank, line.time, evaluation=True)

    def _told(self, line: Line) -> Iterator[Item]:
        """Checkpoints and facts."""
        text = line.text
        if "successfully" in text:
            saved = _SAVED.search(text)
            if saved is not None:
                data = {"path": saved[2]} if saved[2] else {}
                yield Note("checkpoint", int(saved[1]), line.number, data)
                return
            saved = _SAVED_2019.search(text)
            if saved is not None:
                yield Note("checkpoint", int(saved[2]), line.number, {"path": saved[1]})
                return
            loaded = _LOADED.search(text) or _LOADED_2019.search(text)
            if loaded is not None:
                yield Note("resumed", int(loaded[1]), line.number)
            return
        world = _WORLD.search(text) if "world size" in text else None
        if world is not None:
            yield Note("facts", None, line.number, {"world_size": int(world[1])})
        vocabulary = _VOCABULARY.search(text) if "padded vocab" in text else None
        if vocabulary is not None:
            yield Note("facts", None, line.number, {"vocab_size": whole(vocabulary[1])})


NEEDLES = (
    "iteration", "world size", "time (", "..: ", "validation", "test loss", "successfully",
    "padded vocab",
)  # fmt: skip

FORMAT = LineFormat(
    name="megatron",
    title="Megatron-LM",
    parser=Megatron,
    needles=NEEDLES,
    names=NAMES,
    weight=0.95,
    separator="|",
)

"""DeepSpeed standard output: lines of its engine, of its pipelines and of its chat examples.

The engine tells no loss; where a script prints one beside it, that script's format is the better
reading, so the engine's lines count little in recognition.
"""

import re
from collections import deque
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pipes import fields
from surefoot.readers.numbers import number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line
from surefoot.readers.text.prefixes import timestamp

_N = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,4})?|\.\d{1,40}|nan|inf)"
_STEP = re.compile(r"\bstep=(\d{1,12}), skipped=(\d{1,12})(?:, lr=\[([^\]]{0,4000})\])?")
_SPEED = re.compile(
    r"(?:epoch=(\d{1,9})/micro_step=(\d{1,12})/global_step=(\d{1,12})|\b(\d{1,9})/(\d{1,12})), "
    r"(?=(?:RunningAvg)?SamplesPerSec=)"
)
_PAIR = re.compile(rf"(?<!\w)([A-Z]\w{{1,40}})=({_N})(GB)?(?![\w.])")
_OVERFLOW = re.compile(
    r"(?:OVERFLOW!|dynamic loss scale overflow!|Overflow detected\.)"
    r"(?: Rank (\d{1,6}))? Skipping step"
    r"(?:\.? Attempted loss scale: ([\d.e+]{1,24}))?"
)
_TIMES = re.compile(r"\btime \(ms\) \| ")
_PIPELINE = re.compile(
    rf"\bsteps: (\d{{1,12}}) loss: ({_N}) iter time \(s\): ({_N}) samples/sec: ({_N})"
)
_CHAT = re.compile(
    rf"\bEpoch: (\d{{1,9}}), Step: (\d{{1,12}}), (?:Rank: (\d{{1,6}}), )?loss = "
    rf"(?:tensor\()?({_N})"
)
_EPOCH = re.compile(
    r"Beginning of Epoch \d{1,9}/\d{1,9}, "
    r"(?:Total )?(?:Micro|Generation) Batches(?: Per Epochs?)? (\d{1,12})"
)
_PERPLEXITY = re.compile(rf"\bppl: ({_N})(?:, loss: ({_N}))?\s*$")
# `epoch: 0|step: 61|ppo_ep: 1|act_loss: 0.17|...`, later `Epoch: 0 | Step: 61 | PPO Epoch: 1 | ...`
_PPO = re.compile(r"\b[Ee]poch: (\d{1,9}) ?\| ?[Ss]tep: (\d{1,12}) ?\| ?(?=ppo_ep|PPO Epoch)")
_REWARD = re.compile(r"\b[Aa]verage reward score: ")
_LATENCY = re.compile(rf"\|([A-Z]\w{{1,30}}(?: \w{{1,30}})?)=({_N})(s?)\b")
_ROUTED = re.compile(rf"'step': ?\d{{1,12}}, (?='ppl': {_N})")
_ROUTED_PAIR = re.compile(rf"'([a-z][\w -]{{0,40}})': ?({_N})")
_EXAMPLE = re.compile(rf"\bLoss: ({_N})\s*$")
_READY = re.compile(r"\[Torch\] Checkpoint global_step(\d{1,12}) is ready now")
_WORLD = re.compile(r"\bdist_world_size=(\d{1,9})|\bworld_size[ .]{1,60}(\d{1,9})\s*$")
_DATE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)\]")


class DeepSpeed(LineParser):
    """The engine's lines by their step; overflows belong to the next step that is told."""

    def __init__(self) -> None:
        self._overflows: list[int] = []
        self._step: int | None = None
        self._batches: int | None = None
        self._micro = False
        self._rank: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        if "step=" in text or ("SamplesPerSec=" in text and "E2E latency=" not in text):
            yield from self._engine(line)
        elif "verflow" in text or "OVERFLOW" in text:
            if _OVERFLOW.search(text) is not None and len(self._overflows) < 10_000:
                # Every rank may tell of the same overflow: those of the first rank count.
                self._rank = line.rank if self._rank is None else self._rank
                if line.rank == self._rank:
                    self._overflows.append(line.number)
        elif "time (ms) | " in text:
            found = _TIMES.search(text)
            if found is not None:
                values = {f"time/{key} (ms)": v for key, v in fields(text[found.end() :])}
                if values:
                    yield Point(None, values, line.number, line.rank, line.time)
        elif "steps: " in text:
            pipeline = _PIPELINE.search(text)
            if pipeline is not None:
                step, *told = pipeline.groups()
                keys = ("loss", "iter time (s)", "samples/sec")
                yield from self._at(int(step), dict(zip(keys, map(float, told), strict=True)), line)
        elif "Checkpoint global_step" in text:
            ready = _READY.search(text)
            if ready is not None:
                yield Note("checkpoint", int(ready[1]), line.number)
        elif "world_size" in text:
            world = _WORLD.search(text)
            if world is not None:
                data = {"world_size": int(world[1] or world[2])}
                yield Note("facts", None, line.number, data)
        else:
            yield from self._chat(line)

    def finish(self) -> Iterator[Item]:
        """Overflows after the last step that was told."""
        step = None if self._step is None else self._step + 1
        for number_of_line in self._overflows:
            yield Note("update_skipped", step, number_of_line)

    def _engine(self, line: Line) -> Iterator[Item]:
        step = _STEP.search(line.text)
        if step is not None:
            values = {"skipped": float(step[2])}
            for index, rate in enumerate((step[3] or "").split(",")):
                told = number(rate)
                if told is not None:
                    values["lr" if index == 0 else f"lr/group{index}"] = told
            # Parameter groups with the first one's rate say nothing new.
            values = {k: v for k, v in values.items() if k == "lr" or v != values.get("lr")}
            yield from self._at(int(step[1]), values, line)
            return
        speed = _SPEED.search(line.text)
        if speed is not None:
            values = {
                f"{key} (GB)" if unit else key: float(told)
                for key, told, unit in _PAIR.findall(line.text[speed.end() :])
            }
            if speed[3]:
                values["epoch"] = float(speed[1])
                yield from self._at(int(speed[3]), values, line)
            elif values:  # old: epoch/micro-step, right after the line with the step
                yield Point(None, values, line.number, line.rank, line.time)

    def _chat(self, line: Line) -> Iterator[Item]:
        """What the examples of DeepSpeed-Chat print; steps are micro batches there."""
        text = line.text
        begins = _EPOCH.search(text)
        if begins is not None:
            self._batches = int(begins[1])
            return
        loss = _CHAT.search(text)
        if loss is not None:
            epoch, micro = int(loss[1]), int(loss[2])
            step = epoch * self._batches + micro if self._batches is not None else micro
            rank = int(loss[3]) if loss[3] else line.rank
            self._step, self._micro = step, True
            yield Point(step, {"loss": float(loss[4]), "epoch": float(epoch)}, line.number, rank)
            return
        ppo = _PPO.search(text)
        if ppo is not None:
            self._step = int(ppo[1]) * (self._batches or 0) + int(ppo[2])
            self._micro = True
            values = {"epoch": float(ppo[1]), **dict(fields(text[ppo.end() :]))}
            yield Point(self._step, values, line.number, line.rank, line.time)
            return
        yield from self._beside(line)

    def _beside(self, line: Line) -> Iterator[Item]:
        """What the examples print of the step that was told last."""
        text, values = line.text, dict[str, float]()
        if "reward score: " in text:
            reward = _REWARD.search(text)
            values = dict(fields(text[reward.start() :])) if reward is not None else {}
        elif "E2E latency=" in text:
            for key, told, unit in _LATENCY.findall(text):
                values[f"{key} ({unit})" if unit else key] = float(told)
        elif "Loss: " in text and self._step is not None:
            loss = _EXAMPLE.search(text)  # of HelloDeepSpeed, right after the engine's lines
            values = {"loss": float(loss[1])} if loss is not None else {}
        elif "'ppl': " in text:  # its step counts micro batches, the engine's does not
            routed = _ROUTED.search(text)
            if routed is not None:
                pairs = _ROUTED_PAIR.findall(text, routed.end())
                values = {"eval ppl" if k == "ppl" else k: float(told) for k, told in pairs}
                step = 0 if self._step is None else None
                yield Point(step, values, line.number, line.rank, line.time, evaluation=True)
            return
        if values:
            yield Point(None, values, line.number, line.rank, line.time)
            return
        ppl = _PERPLEXITY.search(text) if "ppl: " in text else None
        if ppl is not None:
            values = {"eval ppl": float(ppl[1])}
            if ppl[2]:
                values["eval loss"] = float(ppl[2])
            # Evaluated before training too: then no step was told yet.
            step_told = 0 if self._step is None else None
            yield Point(step_told, values, line.number, line.rank, line.time, evaluation=True)

    def _at(self, step: int, values: dict[str, float], line: Line) -> Iterator[Item]:
        """Numbers of an optimizer step; beside losses of micro batches they are of the last one."""
        if step == 0:
            return  # printed while the engine is set up: no step was made
        date = _DATE.search(line.text, 0, 200) if line.time is None else None
        time = timestamp(date[1]) if date is not None else line.time
        yield Point(None if self._micro else step, values, line.number, line.rank, time)
        if not self._micro:
            self._step = step
        if self._rank is not None and line.rank != self._rank:
            return  # a step of another rank, which may lag
        for number_of_line in self._overflows:
            yield Note("update_skipped", self._step, number_of_line)
        self._overflows.clear()


class WithLosses(DeepSpeed):
    """The same, but of a log in which DeepSpeed's pipeline or an example tells losses, if at all.

    What is told before the first loss waits for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Item] | None = deque(maxlen=1000)

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        if self._waiting is None:
            yield from super().feed(line)
            return
        self._waiting.extend(super().feed(line))
        if "loss" in line.text and any(
            isinstance(item, Point) and "loss" in item.values for item in self._waiting
        ):
            waiting, self._waiting = self._waiting, None
            yield from waiting

    def finish(self) -> Iterator[Item]:
        """See the base class."""
        if self._waiting is None:
            yield from super().finish()


NEEDLES = (
    "step=", "SamplesPerSec=", "OVERFLOW", "overflow!", "time (ms) | ", "steps: ", "ppl: ",
    "Checkpoint global_step", "world_size", "Beginning of Epoch", ", loss = ", "Overflow detected",
    "|step: ", "| Step: ", "reward score: ", "E2E latency=", "Loss: ", "'ppl': ",
)  # fmt: skip

NAMES = {
    "skipped": ("skipped_total", 1.0),
    "CurrSamplesPerSec": ("samples_per_second", 1.0),
    "RunningAvgSamplesPerSec": ("samples_per_second_average", 1.0),
    "SamplesPerSec": ("samples_per_second_average", 1.0),
    "MemAllocated (GB)": ("memory_allocated", 2.0**30),
    "MaxMemAllocated (GB)": ("memory", 2.0**30),
    "iter time (s)": ("step_time", 1.0),
    "time/step (ms)": ("time_step", 1e-3),  # the optimizer's part of it
}

FORMATS = (
    LineFormat(
        name="deepspeed",
        title="DeepSpeed",
        parser=DeepSpeed,
        needles=NEEDLES,
        names=NAMES,
        weight=0.2,
    ),
    LineFormat(
        name="deepspeed-losses",
        title="DeepSpeed",
        parser=WithLosses,
        needles=NEEDLES,
        names=NAMES,
        weight=0.9,
    ),
)

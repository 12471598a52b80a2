"""nanoGPT and nanochat standard output.

nanoGPT: ``iter 2920: loss 3.9883, time 1099.34ms, mfu 15.34%`` and, where it evaluates,
``step 3000: train loss 4.0390, val loss 4.0427``. nanochat: ``step 00010/21400 (0.05%) | loss:
9.1 | ...`` and ``Step 00250 | Validation bpb: 0.9``. The lecture between them: ``250 train 5.91``.
"""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_ITER = re.compile(r"\biter (\d{1,12}): (?=loss )")
_EVAL = re.compile(r"\bstep (\d{1,12}): (?=(?:train|val) loss |losses? train)")
_SAVING = re.compile(r"\bsaving checkpoint to (\S{1,400})")
_RESUMING = re.compile(r"\bResuming training from (\S{1,400})")
_FACTS = (
    (re.compile(r"\btokens per iteration will be: (\d[\d,]{0,20})"), "tokens_per_step"),
    (re.compile(r"\bfound vocab_size = (\d{1,9})"), "vocab_size"),
)


class NanoGPT(LineParser):
    """``iter`` lines (training) and ``step`` lines (evaluation of both splits)."""

    def __init__(self) -> None:
        self._step: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _ITER.search(text)
        if found is not None:
            self._step = int(found[1])
            values = _values(text, found.end())
            # Until the fifth iteration it prints the mfu -100%: not measured.
            if values.get("mfu (%)", 0.0) < 0.0:
                del values["mfu (%)"]
            if values:
                yield Point(self._step, values, line.number, line.rank, line.time)
            return
        found = _EVAL.search(text)
        if found is not None:
            self._step = int(found[1])
            values = _values(text, found.end())
            if values:
                yield Point(self._step, values, line.number, line.rank, line.time, evaluation=True)
            return
        found = _SAVING.search(text)
        if found is not None:
            yield Note("checkpoint", self._step, line.number, {"path": found[1]})
            return
        found = _RESUMING.search(text)
        if found is not None:
            yield Note("resumed", None, line.number, {"path": found[1]})
            return
        for pattern, fact in _FACTS:
            told = pattern.search(text)
            if told is not None:
                yield Note("facts", None, line.number, {fact: int(told[1].replace(",", ""))})


_STEP = re.compile(  # the step has five digits and more, training lines a percentage
    r"\b[Ss]tep (\d{5,12})(?:/(\d{5,12}))?(?: \([\d.]{1,12}%\) \| (?=\w[\w @]{0,40}: )| \| "
    r"(?=Training loss: |Validation (?:bpb|loss): |CORE metric: ))"
)
_SAVED = re.compile(
    r"\bSaved model (?:parameters|file|checkpoint) to:? (\S{0,400}?(\d{1,12})\.\w+)"
)
_WORLD = re.compile(r"\b(?:Distributed world size|DDP world size): (\d{1,7})")
_VOCAB = re.compile(r"\bVocab size: (\d[\d,]{0,12})")


class Nanochat(LineParser):
    """Records of base, mid and chat training; its loss is a moving average without bias."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _STEP.search(text)
        if found is not None:
            values = _values(text, found.end())
            evaluation = any(key.startswith(("Validation", "CORE")) for key in values)
            if values:
                step = int(found[1])
                yield Point(step, values, line.number, line.rank, line.time, evaluation=evaluation)
            if "loss" in values and "smoothed" not in self._told:
                self._told.add("smoothed")
                yield Note("facts", None, line.number, {"loss_is": "moving average"})
            if found[2] and found[2] not in self._told:
                self._told.add(found[2])
                yield Note("facts", None, line.number, {"steps": int(found[2])})
            return
        found = _SAVED.search(text)
        if found is not None:
            yield Note("checkpoint", int(found[2]), line.number, {"path": found[1]})
            return
        for pattern, fact in ((_WORLD, "world_size"), (_VOCAB, "vocab_size")):
            told = pattern.search(text)
            if told is not None:
                yield Note("facts", None, line.number, {fact: int(told[1].replace(",", ""))})


_LOGGED = re.compile(rf"(\d{{1,12}}) (train|val|hella) ({NUMBER})\s*$")


class BuildNanoGPT(LineParser):
    """The log file of the build-nanogpt lecture: ``250 train 5.912345``, ``250 val 5.9``."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        found = _LOGGED.match(line.text) if len(line.text) < 80 else None
        value = number(found[3]) if found is not None else None
        if found is not None and value is not None:
            beside = found[2] != "train"
            yield Point(int(found[1]), {found[2]: value}, line.number, line.rank, line.time, beside)


def _values(text: str, start: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for pair in pairs(text, start):
        values.setdefault(pair.key, pair.value)
    return values


FORMATS = (
    LineFormat(
        name="build-nanogpt",
        title="build-nanogpt",
        parser=BuildNanoGPT,
        needles=(" train ", " val ", " hella "),
        names={
            "train": ("loss", 1.0),
            "val": ("validation_loss", 1.0),
            "hella": ("hellaswag_accuracy", 1.0),
        },
        weight=0.9,
    ),
    LineFormat(
        name="nanogpt",
        title="nanoGPT",
        parser=NanoGPT,
        needles=("iter ", "step ", "checkpoint", "Resuming", "tokens per", "vocab_size"),
        names={
            # An estimate over several batches in evaluation mode, not the loss of the step.
            "train loss": ("evaluation_train_loss", 1.0),
            "time (ms)": ("step_time", 1e-3),
            "time (s)": ("step_time", 1.0),
        },
    ),
    LineFormat(
        name="nanochat",
        title="nanochat",
        parser=Nanochat,
        needles=("tep ", "Saved model", "world size", "Vocab size"),
        names={
            "Validation bpb": ("validation_bpb", 1.0),  # bits per byte: no loss in nats per token
            "mfu": ("mfu", 0.01),
            "bf16_mfu": ("mfu", 0.01),
            "Training loss": ("loss", 1.0),
        },
        weight=0.98,
    ),
)

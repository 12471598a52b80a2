"""Any line that names a step and a metric: ``Step 100 | Loss: 0.5``, ``步数: 100, 损失: 2.31``.

The fallback for trainers of which nothing is known. Keys are kept as printed, also those that the
common table does not know: the user may say what they are.
"""

import re
from collections.abc import Iterator

from surefoot.readers.aliases import LOCALISED, STEPS
from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._bars import Bar, LastDrawn, bar
from surefoot.readers.logs._epochs import EpochSteps
from surefoot.readers.logs._pairs import Pair, pairs, short
from surefoot.readers.names import lookup, split_unit
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_WORDS = frozenset(
    {"step", "iter", "batch", "update", "it"}
    | {word for stem in STEPS for word in stem.strip("_").split("_")}
    | {key for key, stem in LOCALISED.items() if stem in STEPS}
) - {"n", "num", "train", "trainer", "global", "current", "optimizer", "training", "completed"}
_STEP = re.compile("|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)), re.IGNORECASE)
_LOOK = 4096
_RANKED = {stem: rank for rank, stem in enumerate(STEPS)}
_LATE = ("it", "batch", "update", "steps", "iterations", "n_iter")
_WEAK = frozenset(
    {
        "epoch", "batch_size", "learning_rate", "timestamp", "consumed_runtime", "loss_scale",
        "skipped_iterations", "update_skipped", "consumed_samples", "consumed_tokens",
    }
)  # fmt: skip
_SKIPPED = re.compile(
    r"skip(?:ping|ped)?(?: the)?(?: this)? (?:optimizer|update|step|gradient|parameter)",
    re.IGNORECASE,
)
_HELD_OUT = re.compile(
    r"(?<![\w/])(?:val|valid|validation|eval|evaluation|验证|検証|評価|评估)(?![\w/])"
    r"(?![ _-]?(?:loss|ppl|perplexity|bpb|acc|损失|ロス))",
    re.IGNORECASE,
)
_EPOCH_STEP = re.compile(
    r"\bEpoch:?\s{0,2}\[\s{0,8}(\d{1,9})(?:/\d{1,9})?\s?\]\s?,?\s?"
    r"[\[(]\s{0,12}(\d{1,12})/(\d{1,12})",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:val|valid|validat\w*|eval\w*|test\w*|sanity|load\w*|map|tokeni\w*|generat\w*|predict\w*)\b",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\bEpoch:?\s{0,2}\[?(\d{1,9})\b", re.IGNORECASE)
_VALIDATION = re.compile(r"\W{0,8}(?:\w{1,20}\W{1,4}){0,2}(?:val|eval|验证|検証)", re.IGNORECASE)
_NOT_NOW = re.compile(
    r"\b(?:total|max|num|number|per|warm|warmup|save|eval|log|logging|every|accumulation|last|"
    r"resume|best|next|from|inner|total_steps)\b",
    re.IGNORECASE,
)
_SUMMARY = "TrainOutput("
"""What the Transformers trainer returns: means of the run, under its last step."""
_NO_KEY = re.compile(r"\.(?:py|cpp|cc|h|cu)$")


class KeyValue(LineParser):
    """One line, one record."""

    def __init__(self) -> None:
        self._total: float | None = None
        self._epochs = EpochSteps()
        self._said = False
        self._begun = False
        self._drawn = LastDrawn()

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        if _SUMMARY in text:
            return
        if self.step_key is not None:
            yield from self._said_by_user(line, self.step_key)
            return
        if "%|" in text or "\u2501" in text:
            drawn = bar(text)
            if drawn is not None and drawn.exact and drawn.postfix:
                yield from self._bar(line, drawn)
                return
        if _STEP.search(text, 0, _LOOK) is None and _EPOCH_STEP.search(text, 0, _LOOK) is None:
            yield from self._beside(line)
            return
        found = [pair for pair in pairs(text) if not _NO_KEY.search(pair.key)]
        place, rest, within = _placed(text, found)
        if place is None:
            yield from self._beside(line)
            return
        if "skip" in text.lower() and _SKIPPED.search(text):
            step = self._of_run(place, rest, within)
            after = [pair for pair in rest if pair.start > place.start]
            data = {split_unit(pair.key)[0]: pair.value for pair in after}
            yield Note("update_skipped", step, line.number, data)
            return
        values: dict[str, float] = {}
        for pair in rest:
            values.setdefault(_key(pair), pair.value)
        signals = {key: lookup(split_unit(key)[0]) for key in values}
        strong = {signal for signal in signals.values() if signal and signal not in _WEAK}
        if "norm" in values:
            strong.add("grad_norm")
        if not strong and not (
            any(pair.told for pair in rest)
            and _listed(text)
            and not text[: place.start].strip(" -*#[(>")
        ):
            return
        evaluation = bool(strong) and all(
            signal.startswith(("validation", "test_")) for signal in strong
        )
        if not evaluation and "loss" in strong and _HELD_OUT.search(text, 0, _LOOK):
            values = {
                f"val {key}" if signals[key] in ("loss", "perplexity", "accuracy") else key: value
                for key, value in values.items()
            }
            evaluation = True
        step = self._of_run(place, rest, within)
        self._begun = True
        yield Point(step, values, line.number, line.rank, line.time, evaluation=evaluation)
        if self._epochs.within:
            if not self._said:
                self._said = True
                yield Note("facts", None, line.number, {"steps_are": "counted over epochs"})
        elif place.of is not None and place.of != self._total and place.of >= step:
            self._total = place.of
            yield Note("facts", None, line.number, {"steps": int(place.of)})

    def finish(self) -> Iterator[Item]:
        """What a bar has drawn last."""
        yield from self._drawn.rest()

    def _bar(self, line: Line, drawn: Bar) -> Iterator[Item]:
        """A progress bar whose postfix tells a metric: ``100/1000 [..., 1.6it/s, loss=2.5]``."""
        if _ASIDE.search(drawn.description):
            return
        told = [pair for pair in pairs(drawn.postfix) if pair.told]
        values = {pair.key: pair.value for pair in told}
        if not {lookup(split_unit(key)[0]) for key in values} - {None} - _WEAK:
            return
        place = _step(told)
        n = drawn.n if place is None else int(told[place].value)
        epoch = _EPOCH.search(drawn.description)
        if place is None and epoch is not None:
            values["epoch"] = float(epoch[1])
            n = self._epochs.step(int(epoch[1]), drawn.n, drawn.total, sure=True)
        point = Point(n, values, line.number, line.rank, line.time)
        last = self._drawn.take(n, point)
        if last is not None:
            self._begun = True
            yield last

    def _said_by_user(self, line: Line, step_key: str) -> Iterator[Item]:
        """A record whose step stands under the key that the user named."""
        found = list(pairs(line.text))
        ends = [pair.key.rpartition(" ")[2] for pair in found]
        for place, end in zip(found, ends, strict=True):
            if step_key not in (place.key, end) or place.value % 1 or not 0 <= place.value < 2**53:
                continue
            values = {pair.key: pair.value for pair in found if pair is not place}
            if values:
                yield Point(int(place.value), values, line.number, line.rank, line.time)
            return

    def _beside(self, line: Line) -> Iterator[Item]:
        """A line of validation that leaves its step to the line before."""
        if not self._begun or not _VALIDATION.match(line.text):
            return
        yield from self._drawn.rest()
        values = {pair.key: pair.value for pair in pairs(line.text) if not _NO_KEY.search(pair.key)}
        known = {lookup(split_unit(key)[0]) for key in values} - {None} - _WEAK
        if any(str(signal).startswith("validation") for signal in known):
            yield Point(None, values, line.number, line.rank, line.time, evaluation=True)

    def _of_run(self, place: Pair, rest: list[Pair], within: bool) -> int:
        """The step of the run, where epochs count their steps anew."""
        step = int(place.value)
        for pair in rest:
            stem = split_unit(pair.key)[0]
            named = stem == "epoch" or (not pair.told and stem.endswith("_epoch"))
            if named and pair.value % 1 == 0:
                of = None if place.of is None else int(place.of)
                return self._epochs.step(int(pair.value), step, of, sure=within)
        return step


def _placed(text: str, found: list[Pair]) -> tuple[Pair | None, list[Pair], bool]:
    """(the pair that tells the step, the others, whether it is counted within the epoch)."""
    within = _EPOCH_STEP.search(text, 0, _LOOK)  # Epoch:[1/2](100/5000) loss:7.2
    if within is not None:
        epoch, n, of = (float(number) for number in within.groups())
        rest = [pair for pair in found if pair.key.lower() != "epoch"]
        start = within.start()
        rest.append(Pair("epoch", epoch, None, True, start))
        return Pair("step", n, of, True, start), rest, True
    at = _step(found)
    if at is None:
        return None, found, False
    return found[at], found[:at] + found[at + 1 :], False


def _step(found: list[Pair]) -> int | None:
    """Which of the pairs tells the step; the surest name wins, then the first."""
    best: tuple[int, int] | None = None
    for number, pair in enumerate(found):
        if pair.value != pair.value or not 0 <= pair.value < 2**53 or pair.value % 1:
            continue
        stem, unit = split_unit(pair.key)
        if unit:
            continue
        last = stem
        if " " in pair.key and not _NOT_NOW.search(pair.key):  # "trainer INFO iter: 5"
            last = split_unit(pair.key.rpartition(" ")[2])[0]
        if number and not pair.told and stem.endswith(("at_" + last, "after_" + last)):
            continue  # "... no drift before the one at step 644": a sentence
        rank = _RANKED.get(stem, _RANKED.get(last))
        if rank is None or (
            best is not None and rank >= best[0] and split_unit(found[best[1]].key)[0] not in _LATE
        ):
            continue
        best = (rank, number)
    return None if best is None else best[1]


def _key(pair: Pair) -> str:
    """The key; of words that run on without a sign, the part that is a metric."""
    if pair.told or " " not in pair.key or lookup(split_unit(pair.key)[0]):
        return pair.key
    words = pair.key.split(" ")
    for first in range(1, len(words)):
        tail = " ".join(words[first:])
        if lookup(split_unit(tail)[0]) or tail == "norm":
            return tail
    return pair.key


def _listed(text: str) -> bool:
    """Whether a line is a list of fields rather than a sentence."""
    return any(sign in text for sign in ("|", ", ", "=", "\t", "，")) or text.count(":") > 1


FORMAT = LineFormat(
    name="keyvalue",
    title="key: value lines",
    parser=KeyValue,
    names={
        "norm": ("grad_norm", 1.0),
        "time": ("step_time", 1.0),
        "time (ms)": ("step_time", 1e-3),
        "time (s)": ("step_time", 1.0),
        "train loss": ("loss", 1.0),
    },
    weight=0.3,
)

"""fairseq and metaseq: pipes (``| epoch 027 | loss 6.343 | ...``), ``train_inner``, JSON.

Losses are in base 2. The summary of an epoch is its mean; it stands for the loss of its last update
only in logs that tell nothing else.
"""

import re
from collections.abc import Iterator
from math import log

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import short
from surefoot.readers.numbers import number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_VALUE = r"[-+]?(?:[\d.]|nan|inf)[\w.+-]{0,32}"
_JSON = re.compile(r'\{"epoch": (?:\d{1,9}|null|"\d{1,9}"), ')
_JSON_FIELD = re.compile(rf'"([\w.-]{{1,80}})": "?({_VALUE})"?(?=[,}}\s])')
_TAG = re.compile(r"\| (train_inner|train|valid|test)[\w.-]{0,60} \| ?$")
_INNER = re.compile(
    r"\bepoch \d{3,9}(?: \| [\w' ]{1,80})?: {1,8}(?:\d{1,9} / \d{1,9} |\d{1,3}%\|.{0,200}?, )"
    r"(?=[\w-]{1,60}=)"
)
_INNER_FIELD = re.compile(rf"\b([\w.-]{{1,80}})=({_VALUE})(?=[%,\]\s]|$)")
_PIPES = re.compile(r"\bepoch (\d{3,9}) \| (?=valid on |[\w.-]{1,60} (?:[\d.+-]|nan|inf))")
_PIPE_FIELD = re.compile(rf"\| ([\w.-]{{1,80}}) ({_VALUE})%?(?= \||\s*$)")
_SUBSET = re.compile(r"\| valid on '([\w.-]{1,80})' subset")
_OVERFLOW = re.compile(
    r"\boverflow detected, (?:ignoring gradient, )?setting loss scale to: ([\d.e+-]{1,24})"
)
_SAVED = re.compile(r"\b[Ss]aved checkpoint (\S{1,400}) \(epoch \d{1,9} @ (\d{1,12}) updates")
_LOADED = re.compile(r"\b[Ll]oaded checkpoint (\S{1,400}) \(epoch \d{1,9} @ (\d{1,12}) updates\)")
_DEVICES = re.compile(r"\btraining on (\d{1,7}) (?:GPUs|devices)")


class Fairseq(LineParser):
    """Records of all generations: each line tells its update (``num_updates``)."""

    def __init__(self) -> None:
        self._inner = False

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _JSON.search(text)
        if found is not None:
            tag = _TAG.search(text, max(0, found.start() - 100), found.start())
            values = _numbers(_JSON_FIELD, text, found.start())
            yield from self._record(line, values, tag[1] if tag else "")
            return
        found = _INNER.search(text)
        if found is not None:
            values = _numbers(_INNER_FIELD, text, found.end())
            yield from self._record(line, values, "train_inner")
            return
        found = _PIPES.search(text)
        if found is not None:
            values = _numbers(_PIPE_FIELD, text, found.end() - 2)
            values = {"epoch": float(found[1]), **values}
            subset = _SUBSET.search(text, found.end() - 2)
            if subset is not None:
                values = {f"{_of(subset[1])}{key}": value for key, value in values.items()}
            yield from self._record(line, values, "valid" if subset else "train")
            return
        overflow = _OVERFLOW.search(text)
        if overflow is not None:
            scale = number(overflow[1].rstrip("."))
            yield Note("update_skipped", None, line.number, {"loss_scale": scale})
            return
        for kind, pattern in (("checkpoint", _SAVED), ("resumed", _LOADED)):
            told = pattern.search(text)
            if told is not None:
                data = {"path": told[1]}
                if kind == "checkpoint":
                    yield Note("checkpoint", int(told[2]), line.number, data)
                else:
                    yield Note("resumed", int(told[2]), line.number, data)
                return
        devices = _DEVICES.search(text)
        if devices is not None:
            yield Note("facts", None, line.number, {"world_size": int(devices[1])})

    def _record(self, line: Line, values: dict[str, float], tag: str) -> Iterator[Item]:
        validation = tag in ("valid", "test") or any(key.startswith("valid_") for key in values)
        mean = not validation and (tag == "train" or "train_num_updates" in values)
        stems = {key.rpartition("/")[2] for key in values}
        plain = {stem.removeprefix("valid_").removeprefix("train_") for stem in stems}
        if "num_updates" not in plain or len(plain - {"epoch"}) < 2:
            return
        step: int | None = None
        told: dict[str, float] = {}
        for key, value in values.items():
            stem = key.rpartition("/")[2]
            stem = stem.removeprefix("valid_" if validation else "train_" if mean else "")
            if stem == "num_updates":
                step = int(value) if value == value and abs(value) < 2**53 else None
            elif stem == "epoch" and (validation or (mean and self._inner)):
                continue
            elif validation:
                group = key.rpartition("/")[0] or "valid"
                told[f"{group}_{stem}"] = value
            elif mean and self._inner:
                told[f"epoch_mean_{stem}"] = value
            else:
                told[stem if mean else key] = value
        self._inner = self._inner or not (mean or validation)
        if step is not None:
            yield Point(step, told, line.number, line.rank, line.time, evaluation=validation)


def _of(subset: str) -> str:
    """The first subset is named ``valid``; others keep their names."""
    return "" if subset == "valid" else f"{subset}/"


def _numbers(pattern: re.Pattern[str], text: str, start: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for field in pattern.finditer(text, start, start + 65_536):
        value = number(field[2])
        if value is not None:
            values.setdefault(field[1], value)
    return values


_NATS = log(2.0)

FORMAT = LineFormat(
    name="fairseq",
    title="fairseq",
    parser=Fairseq,
    needles=("num_updates", "overflow detected", "checkpoint", "training on "),
    names={
        "loss": ("loss", 1.0),
        "nll_loss": ("nll_loss", 1.0),
        "valid_loss": ("validation_loss", 1.0),
        "valid_nll_loss": ("validation_nll_loss", _NATS),
        "valid_ppl": ("validation_perplexity", 1.0),
        "valid_best": ("best_validation_loss", _NATS),
        "valid_best_loss": ("best_validation_loss", _NATS),
        "epoch_mean_loss": ("epoch_mean_loss", _NATS),
        "epoch_mean_nll_loss": ("epoch_mean_nll_loss", _NATS),
        # What fairseq and metaseq call GB are 2^30 bytes; allocated is the most that was.
        "gb_free": ("memory_free", 2.0**30),
        "cuda_gb_free": ("memory_free", 2.0**30),
        "cuda_gb_allocated": ("memory", 2.0**30),
        "cuda_gb_reserved": ("memory_reserved", 2.0**30),
        "ups": ("updates_per_second", 1.0),
        "clip": ("clipped_share", 0.01),
        "wpb": ("tokens", 1.0),
    },
    log_base=2.0,
)

"""InternEvo and InternLM training logs: ``tflops=... step=5 loss=... tgs (tokens/gpu/second)=...``.

Fields are separated by blanks, in 2023 by commas; keys may hold blanks, slashes and brackets.
"""

import math
import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.numbers import as_whole
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line
from surefoot.readers.text.prefixes import timestamp

_N = r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,4})?|nan|inf)"
_PAIR = re.compile(
    rf"(?<![\w/.-])([A-Za-z_][\w/.-]{{0,60}}(?: \([\w/]{{1,40}}\))?)="
    rf"(?:({_N})(?![\w.])|\{{([^{{}}]{{0,2000}})\}})"
)
_GROUP = re.compile(rf"'([\w.-]{{1,60}})': ({_N})(?![\w.])")
_VALIDATION = re.compile(r"\bValidation on ([\w./-]{1,60}): (?=step=)")
_TROUBLE = re.compile(r"(?:Overflow|Nan grad norm) +occurs, please check it")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:[+-]\d\d:\d\d)?)\s")


class InternEvo(LineParser):
    """Records, validations, and the updates that were skipped.

    A warning of an overflow or a NaN is printed before the record of its step; the record then
    counts it in ``inf_nan_skip_batches``, and an infinite norm is printed as -1, a NaN as -2.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._skipped: float | None = None
        self._warned = 0

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        text = line.text
        if "occurs, please check it" in text:
            if _TROUBLE.search(text) is not None and not self._warned:
                self._warned = line.number
            return
        validation = _VALIDATION.search(text)
        if validation is not None:
            yield from self._validation(line, validation)
            return
        if "tgs" not in text or "loss=" not in text:
            return
        begin = text.find("tflops=")
        told = pairs(text[begin if begin >= 0 else max(0, text.find("step=")) :])
        step = as_whole(told.pop("step", None))
        if step is None or "loss" not in told:
            return
        yield Point(step, told, line.number, line.rank, line.time or _time(text))
        skipped = told.get("inf_nan_skip_batches")
        grew = None not in (skipped, self._skipped) and skipped == self._skipped + 1  # type: ignore[operator]
        if self._warned or grew:
            yield Note("update_skipped", step, self._warned or line.number)
        self._last, self._skipped, self._warned = step, skipped, 0

    def finish(self) -> Iterator[Item]:
        """A warning whose record is missing: the log ends in that step."""
        if self._warned and self._last is not None:
            yield Note("update_skipped", self._last + 1, self._warned)

    def _validation(self, line: Line, found: re.Match[str]) -> Iterator[Item]:
        told = pairs(line.text[found.end() :])
        step = as_whole(told.pop("step", None))
        head = f"val/{found[1]}_"
        values = {key.replace(head, "val_", 1): value for key, value in told.items()}
        if step is not None and values:
            where = line.rank, line.time or _time(line.text)
            yield Point(step, values, line.number, *where, evaluation=True)


def pairs(text: str) -> dict[str, float]:
    """The numbers of ``key=value`` pairs; of a dict of norms also ``key/group`` of each.

    The norm of all parameters is the root of the sum of the squares of the groups' norms.
    """
    told: dict[str, float] = {}
    for key, value, groups in _PAIR.findall(text):
        if value:
            told.setdefault(key, _norm(float(value)) if key == "grad_norm" else float(value))
            continue
        norms = {name: _norm(float(norm)) for name, norm in _GROUP.findall(groups)}
        if norms:
            told.setdefault(key, _root(list(norms.values())))
            told.update({f"{key}/{name}": norm for name, norm in norms.items()})
    return told


def _norm(told: float) -> float:
    return {-1.0: math.inf, -2.0: math.nan}.get(told, told)


def _root(norms: list[float]) -> float:
    if any(math.isnan(norm) for norm in norms):
        return math.nan
    return math.hypot(*norms)


def _time(text: str) -> float | None:
    found = _TIME.match(text)
    return timestamp(found[1]) if found is not None else None


FORMAT = LineFormat(
    name="internevo",
    title="InternEvo",
    parser=InternEvo,
    needles=("tgs", "Validation on ", "occurs, please check it"),
    names={
        "tgs (tokens/gpu/second)": ("tokens_per_second_per_device", 1.0),
        "real_tgs": ("real_tgs", 1.0),
        "val_plex": ("validation_perplexity", 1.0),
        "val_acc": ("validation_accuracy", 1.0),
    },
    weight=1.0,
)

"""What the formats of several trainers share: lists of keys, durations, class names."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from surefoot.readers.configs.documents.tree import Document, Leaf
from surefoot.readers.configs.formats import ConfigFormat, Draft

_DURATION = re.compile(r"([0-9][0-9_,]*\.?[0-9]*(?:e[+-]?[0-9]{1,3})?|\.[0-9]+) ?([A-Za-z]*)")


class Signed(ConfigFormat):
    """A format that is told by one of its ``signs``; common names alone are not enough.

    Without it, ``name`` and ``seed`` of any file would make it a trainer's.
    """

    def score(self, document: Document) -> float:
        """As every format, but too little without a sign."""
        score = super().score(document)
        own = any(self.is_sign(self.spell(key)) for key in document.leaves)
        return score if own else 0.4 * score


def under(table: str, names: str) -> frozenset[str]:
    """``under("train", "lr steps")`` -> ``train.lr``, ``train.steps``."""
    return frozenset(f"{table}.{name}" for name in names.split())


def positive(value: Any) -> Any:
    """The number, if it is above zero; -1, 0, ``auto`` and true state nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return value


def inverted(value: Any) -> bool:
    """``no_bias: true`` -> ``bias`` false.

    Raises:
        ValueError: neither true nor false.
    """
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return not value


def flag(word: str, otherwise: str | None = None) -> Callable[[Any], str | None]:
    """A converter: true -> ``word``, all else -> ``otherwise``."""
    return lambda value: word if value is True else otherwise


def class_name(value: Any) -> Any:
    """The last part of ``torch.optim.AdamW``."""
    return value.rpartition(".")[2] if isinstance(value, str) else value


def word(draft: Draft, key: str, default: str | None = None) -> str | None:
    """The key's value if it is text; else the default."""
    value = draft.value(key)
    return value if isinstance(value, str) else default


def number(draft: Draft, key: str) -> float | None:
    """The key's value as a finite number; None if it is none."""
    value = draft.number(key)
    return value if value is not None and math.isfinite(value) else None


def down(value: float) -> float:
    """Rounded down, if it is finite."""
    return math.floor(value) if math.isfinite(value) else value


def share(value: Any) -> Any:
    """A share of the run, above 0 and below 1; else None."""
    number = positive(value)
    return number if number is not None and number < 1 else None


def say_betas(draft: Draft, key: str) -> None:
    """``[0.9, 0.95]`` -> both betas."""
    betas = draft.value(key)
    if isinstance(betas, tuple) and len(betas) >= 2:
        draft.say("optimizer.beta1", betas[0], key)
        draft.say("optimizer.beta2", betas[1], key)
    elif betas is not None:
        draft.open(key, "expected two numbers")


def say_mixture(draft: Draft, key: str, paths: Any = None) -> None:
    """``[0.3, a, 0.7, b]`` or ``[a, b]`` or ``a`` -> sources and their weights."""
    items = draft.value(key) if paths is None else paths
    if items is None or isinstance(items, bool | dict):
        return
    items = items if isinstance(items, tuple) else (items,)
    if len(items) == 1 and isinstance(items[0], str):
        items = tuple(items[0].split())
    numbers = [_number(item) for item in items[::2]]
    if len(items) > 1 and len(items) % 2 == 0 and None not in numbers:
        draft.say("data.sources", tuple(map(str, items[1::2])), key)
        draft.say("data.weights", tuple(numbers), key)
    elif items:
        draft.say("data.sources", tuple(map(str, items)), key)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def duration(value: Any) -> tuple[float, str]:
    """``100ba`` -> (100, "ba"), ``3e12T`` -> (3e12, "t"), ``500`` -> (500, "").

    Raises:
        ValueError: no duration.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    match = _DURATION.fullmatch(str(value).strip()[:64])
    if match is None:
        raise ValueError("expected a duration, such as 100ba or 2ep")
    number = float(match[1].replace("_", "").replace(",", ""))
    if not math.isfinite(number):
        raise ValueError("expected a duration, such as 100ba or 2ep")
    return number, match[2].lower()


def say_duration(draft: Draft, key: str, places: Mapping[str, str]) -> None:
    """State a duration in the field of its unit; ``places`` is unit -> field."""
    value = draft.value(key)
    if value is None:
        return
    try:
        number, unit = duration(value)
    except ValueError as error:
        draft.open(key, f"{str(value)[:60]!r}: {error}")
        return
    if unit in places:
        draft.say(places[unit], number, key)


def each(draft: Draft, key: str) -> list[tuple[Leaf, Any]]:
    """The values of a key in every item of a list: ``datasets[].path``; it counts as understood."""
    draft.value(key)
    found = draft.document.leaves.values()
    return [
        (leaf, leaf.value)
        for leaf in found
        if draft.form.spell(leaf.key) == key and leaf.open is None and leaf.value is not None
    ]


def say_each(draft: Draft, field: str, key: str) -> None:
    """State a field that holds several values, from every item of a list."""
    found = each(draft, key)
    values = [value for _, value in found]
    if found:
        draft.leaves[key] = found[0][0]  # whose line is told
    flat = [str(v) for value in values for v in (value if isinstance(value, tuple) else (value,))]
    if flat:
        draft.say(field, tuple(flat), key)

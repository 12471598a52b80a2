"""Numbers as trainers print them: ``1,234.5``, ``1.0E+00``, ``85.8G``, ``66.91GiB``, ``nan``."""

import math
import re

SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
"""Decimal suffixes as nanotron and others shorten counts: 22.8K, 85.8G. B and G are both 10^9."""

BYTES = {
    "B": 1.0,
    "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40,
}  # fmt: skip

NUMBER = (
    r"[-+]?(?:\d+(?:,\d+)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?:nan|NaN|NAN|inf|Inf|INF|[Ii]nfinity)"
)
"""Pattern of a number, without group; linear, since no part of it can match what another does."""

_SHORT = re.compile(r"([-+]?\d+(?:,\d+)*(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*([KMBGT])")
_SIZE = re.compile(
    r"([-+]?\d+(?:,\d+)*(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*([KMGT]?i?B)\b", re.IGNORECASE
)
_WORDS = {
    "nan": math.nan, "-nan": math.nan, "+nan": math.nan,
    "inf": math.inf, "+inf": math.inf, "-inf": -math.inf,
    "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
}  # fmt: skip


def number(text: str) -> float | None:
    """The number that ``text`` is, or None.

    Thousands separators are taken as such; ``None``, ``N/A`` and an empty text are no number. A
    decimal suffix (``22.8K``) multiplies. A text that holds more than a number is none.
    """
    text = text.strip()
    try:
        if "_" not in text:  # Python would take 1_000: a log that has it is no log
            return float(text)
    except ValueError:
        pass
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    if "," in text:
        head, *groups = text.partition(".")[0].lstrip("+-").split(",")
        if head.isdigit() and len(head) <= 3 and all(len(g) == 3 and g.isdigit() for g in groups):
            return number(text.replace(",", ""))
        return None
    short = _SHORT.fullmatch(text)
    if short is not None:
        return float(short[1].replace(",", "")) * SUFFIXES[short[2]]
    return None


def whole(text: str) -> int | None:
    """The whole number that ``text`` is (``3``, ``3.0``, ``1,024``), or None."""
    return as_whole(number(text))


def as_whole(value: float | None) -> int | None:
    """The whole number that a value is, if it is one that a table can hold; else None."""
    if value is None or not math.isfinite(value) or value != int(value) or abs(value) >= 2**63:
        return None
    return int(value)


def size(text: str) -> float | None:
    """Bytes of ``66.91GiB``, ``8.104 GB``; None if the text does not begin with a size."""
    found = _SIZE.match(text.strip())
    return float(found[1].replace(",", "")) * BYTES[found[2].upper()] if found else None

"""Records as Megatron and its descendants print them: ``key: value | key: value | ...``.

What a field says does not depend on any other field or line:

* ``key: number`` or ``key=number``; in 2019 also ``key number`` (``lm loss 1.02E+01``);
* ``K``, ``M``, ``B``, ``G``, ``T`` right behind the number multiply it (``85.8G``);
* FLOPS of any size are told in TFLOPS: ``5.7TFLOPS`` -> ``key (TFLOPS)``: 5.7;
* any other unit behind the number is put behind the key (``12%`` -> ``key (%)``: 12);
* of ``1.2/1.3`` (now / on average) the first number is taken;
* a field with more than that (a duration, a date, a text) has no number.
"""

import re
from collections.abc import Iterator

from surefoot.readers.numbers import NUMBER, SUFFIXES, number

LONGEST = 200
"""Characters of a field; a number with its key needs less, and what is longer is no field."""

RECORD = 1 << 15
"""Characters of a record that are looked at; the longest ones have a few thousand."""

_NUMBER = re.compile(NUMBER)
_KEY = re.compile(r"[^|:=]{1,80}")
_BARE = re.compile(rf"([A-Za-z][A-Za-z_ -]{{0,60}}) ({NUMBER})")
_UNIT = re.compile(r"%|[KMG]?i?B|ms|s|[A-Z_]{0,16}TFLOP/s/(?:GPU|NPU)")
_FLOPS = re.compile(r"([KMGTPE]?)FLOPS?")
_TERA = {"": 1e-12, "K": 1e-9, "M": 1e-6, "G": 1e-3, "T": 1.0, "P": 1e3, "E": 1e6}


def fields(text: str) -> Iterator[tuple[str, float]]:
    """(key, number) of each ``|``-separated field that has one number."""
    for field in text[:RECORD].split("|"):
        found = one(field) if len(field) <= LONGEST else None
        if found is not None:
            yield found


def one(field: str) -> tuple[str, float] | None:
    """(key, number) of one field, as described above; None if it has no one number."""
    field = field.strip()
    key = _KEY.match(field)
    if key is None:
        return None
    if key.end() == len(field):  # no colon: the form of 2019
        bare = _BARE.fullmatch(field)
        value = None if bare is None else number(bare[2])
        return None if bare is None or value is None else (bare[1].strip(), value)
    label, told = key[0].strip(), field[key.end() + 1 :].strip()
    found = _NUMBER.match(told) if field[key.end()] in ":=" else None
    if found is None or not label:
        return None
    return with_unit(label, found[0], told[found.end() :].strip())


def with_unit(label: str, told: str, rest: str) -> tuple[str, float] | None:
    """(key, number) of a number as printed and what stands behind it; None if that is no unit."""
    value = number(told)
    if value is None:
        return None
    if not rest or rest[0] == "/":
        return label, value
    if rest in SUFFIXES:
        return label, value * SUFFIXES[rest]
    flops = _FLOPS.fullmatch(rest)
    if flops is not None:
        return f"{label} (TFLOPS)", value * _TERA[flops[1]]
    unit = _UNIT.match(rest)
    if unit is not None and (unit.end() == len(rest) or rest[unit.end()] == "/"):
        return f"{label} ({unit[0]})", value
    return None

"""Records as Megatron and its descendants print them: ``key: value | key: value | ...``."""

import re
from collections.abc import Iterator

from surefoot.readers.numbers import NUMBER, number

_FIELD = re.compile(rf"\s*([^|:=]{{1,80}}?)\s*[:=]\s*({NUMBER})\s*([KMBGT]?)(\S{{0,24}})\s*")
_OLD = re.compile(rf"\s*([A-Za-z][A-Za-z_ -]{{0,60}}?)\s+({NUMBER})\s*")
STEP = re.compile(r"\biteration:?\s+([\d,]{1,15})\s*(?:/\s*([\d,]{1,15}))?")


def fields(text: str) -> Iterator[tuple[str, float, str]]:
    """(key, number, what stands behind it) of each ``|``-separated field with one number."""
    for field in text.split("|"):
        found = _FIELD.fullmatch(field) or _OLD.fullmatch(field)
        if found is None:
            continue
        value = number(found[2] + (found[3] if found.re is _FIELD else ""))
        if value is not None:
            yield found[1], value, found[4] if found.re is _FIELD else ""

"""Progress bars as tqdm and rich draw them."""

import re
from typing import NamedTuple

from surefoot.readers.points import Point

LONGEST = 16_384

_TQDM = re.compile(
    r"\d{1,3}%\|[^|\n]{0,500}\| ?(?P<n>[\d.]{1,16}[kMG]?)/(?P<total>[\d.]{1,16}[kMG]?) "
    r"\[[\d:,?a-z ]{1,24}<[^,\]]{1,32}, [^,\]]{1,32}(?P<rest>[^\]\n]{0,12000})\]?"
)
_RICH = re.compile(
    r"(?<![\u2501\u2578\u257a])[\u2501\u2578\u257a]{4,200} {0,200}"
    r"(?P<n>\d{1,12})/(?P<total>\d{1,12}) "
    r"[\d:-]{4,16} . [\d:-]{4,16} [\d.]{1,12}it/s(?P<rest>[^\n]{0,12000})"
)
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9}


class Bar(NamedTuple):
    """A drawn bar.

    Attributes:
        description: the text before it.
        n: items done; rounded to three digits where ``exact`` is false (``1.23k``).
        total: items in all.
        postfix: what stands behind the rate: ``loss=2.3, v_num=0``.
        end: where the bar ends in the text.
    """

    description: str
    n: int
    total: int
    exact: bool
    postfix: str
    end: int


class LastDrawn:
    """Keeps what was drawn last of a count: the bar moves on before its new numbers are set."""

    def __init__(self) -> None:
        self._held: dict[int | None, tuple[int, Point]] = {}

    def take(self, n: int, point: Point) -> Point | None:
        """The point of the count before, once another count is drawn by the same rank."""
        held = self._held.get(point.rank)
        self._held[point.rank] = (n, point)
        return held[1] if held is not None and held[0] != n else None

    def rest(self) -> list[Point]:
        """What is held still; nothing is afterwards."""
        points = [point for _, point in self._held.values()]
        self._held.clear()
        return points


def bar(text: str) -> Bar | None:
    """The first bar of a text that knows its total, or None."""
    if "%|" in text:
        found = _TQDM.search(text, 0, LONGEST)
    elif "\u2501" in text:
        found = _RICH.search(text, 0, LONGEST)
    else:
        return None
    if found is None:
        return None
    n, total = _count(found["n"]), _count(found["total"])
    if n is None or total is None:
        return None
    exact = found["n"][-1] not in _SCALE and found["total"][-1] not in _SCALE
    description = text[max(0, found.start() - 200) : found.start()].strip()
    rest = found["rest"].lstrip(", ")
    return Bar(description.rstrip(": "), n, total, exact, rest, found.end())


def _count(text: str) -> int | None:
    scale = _SCALE.get(text[-1], 1.0)
    digits = text[:-1] if scale != 1.0 else text
    try:
        return round(float(digits) * scale)
    except ValueError:
        return None

"""Drawings of a progress bar by their count and numbers, whether or not a rate or total is told.

``Epoch 0:  10%|#   | 5/50 [00:12<01:40,  2.1s/it, loss=2.3]``, and as NeMo draws them
``Epoch 0: : 5it [00:12, reduced_train_loss=2.3, global_step=4.000]``.
"""

import re
from dataclasses import dataclass

from surefoot.readers.numbers import NUMBER, number

LONGEST = 4000
"""Characters of a bar with its postfix that are looked at."""

_BAR = re.compile(
    r"(?:(?P<title>[^|%]{0,80}): {0,4})?(?:: {1,2})?(?:\d{1,3}%\|[^|]{0,300}\| )?"
    r"(?P<done>\d{1,12})(?:/(?P<total>\d{1,12}))?(?:it)? "
    r"\[[\d:]{4,20}(?:<[^,\]]{1,40})?, "
)
_PAIR = re.compile(rf"(?:^|, ) *([A-Za-z][^=,\[\]]{{0,60}})=({NUMBER})(?= *(?:,|\]|$))")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawing of a bar.

    Attributes:
        title: what stands before it (``Epoch 0``).
        done: units done when it was drawn; ``total`` of them in all, if told.
        values: the numbers of the postfix, by key as printed.
        texts: as ``values``, but as printed: tqdm shortens numbers to three digits.
    """

    title: str
    done: int
    total: int | None
    values: dict[str, float]
    texts: dict[str, str]


def drawing(text: str) -> Drawn | None:
    """The first drawing of a bar in a line; None if it holds none."""
    at = text.find("it [") if "%|" not in text else text.find("%|")
    if at < 0:
        return None
    found = _BAR.search(text, max(0, at - 100), at + LONGEST)
    if found is None:
        return None
    texts = dict(_PAIR.findall(text[found.end() : found.end() + LONGEST]))
    values = {key: value for key, told in texts.items() if (value := number(told)) is not None}
    total = int(found["total"]) if found["total"] else None
    return Drawn((found["title"] or "").strip(" :"), int(found["done"]), total, values, texts)

"""mlx-lm: ``Iter 25: Train loss 1.593, Learning Rate 7.000e-05, It/sec 0.999, ...``."""

import re
from collections.abc import Iterator

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_ITER = re.compile(r"\bIter (\d{1,12}): (?=(Train|Val) loss )")
_SAVED = re.compile(r"\bIter (\d{1,12}): Saved adapter weights to (\S{1,400}?)\.?(?:\s|$)")
_TOTAL = re.compile(r"\bStarting training\.\.\.,? iters: (\d{1,12})")
_NODES = re.compile(r"\bNode \d{1,6} of (\d{1,6})\b")
_TEST = re.compile(rf"\bTest loss ({NUMBER}), Test ppl ({NUMBER})")


class Mlx(LineParser):
    """Training and validation lines of all versions."""

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        found = _ITER.search(text)
        if found is not None:
            values = {pair.key: pair.value for pair in pairs(text, found.end())}
            if values:
                beside = found[2] == "Val"
                yield Point(int(found[1]), values, line.number, line.rank, line.time, beside)
            return
        saved = _SAVED.search(text)
        if saved is not None:
            yield Note("checkpoint", int(saved[1]), line.number, {"path": saved[2]})
            return
        total = _TOTAL.search(text)
        if total is not None:
            yield Note("facts", None, line.number, {"steps": int(total[1])})
            return
        nodes = _NODES.search(text)
        if nodes is not None:
            yield Note("facts", None, line.number, {"world_size": int(nodes[1])})
            return
        test = _TEST.search(text)
        if test is not None:
            told = {"Test loss": number(test[1]), "Test ppl": number(test[2])}
            values = {key: value for key, value in told.items() if value is not None}
            yield Point(None, values, line.number, line.rank, line.time, evaluation=True)


FORMAT = LineFormat(
    name="mlx",
    title="mlx-lm",
    parser=Mlx,
    needles=("Iter ", "iters: ", "Node ", "Test loss"),
    names={"Peak (GB)": ("memory", 1e9)},
)

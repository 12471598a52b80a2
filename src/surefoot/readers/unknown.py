"""What is said of a file in which no metrics were found: the likeliest lines, and what to type."""

import re
from collections.abc import Iterable
from itertools import islice

from surefoot.errors import LogError
from surefoot.readers.text import Line, Source, lines

MOST_LINES = 200_000
MOST_TEXT = 64 << 20
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
_WORDS = re.compile(
    r"loss|step|iter|\blr\b|learning.rate|grad|norm|epoch|ppl|perplexity|tokens|损失|学习率|步|損失|学習率",
    re.IGNORECASE,
)


def no_metrics(source: Source) -> LogError:
    """The error for a file that no format could read."""
    if source.binary:
        return LogError(
            f"{source.name} is binary and of no format that is known (pickles and torch archives "
            "are never loaded): it holds no metrics that could be read"
        )
    return no_metrics_in(source, islice(lines(source, MOST_TEXT), MOST_LINES))


def no_metrics_in(source: Source, told: Iterable[Line]) -> LogError:
    """The error for lines in which no format found anything."""
    best: list[tuple[float, Line]] = []
    count = 0
    for line in told:
        count += bool(line.text.strip())
        score = likeness(line.text[:2000])
        if score > 0 and (len(best) < 3 or score > best[-1][0]):
            best = sorted([*best, (score, line)], key=lambda item: -item[0])[:3]
    if not count:
        return LogError(f"{source.name} is empty: it holds no metrics")
    if not best:
        return LogError(
            f"{source.name} holds no metrics: none of its {count:,} lines looks like one"
        )
    shown = "; ".join(
        f"line {line.number}: {' '.join(line.text.split())[:160]}" for _, line in best
    )
    return LogError(
        f"{source.name} is of no format that is known; the lines most like metrics are: {shown}. "
        f"Name its keys:  surefoot diagnose {source.path} --map step=KEY --map loss=KEY  "
        "(or the format: --format-in NAME)"
    )


def likeness(text: str) -> float:
    """How much a line looks like a record of metrics: 0 = not at all."""
    words = len({word.lower() for word in _WORDS.findall(text)})
    numbers = len(_NUMBER.findall(text))
    if not words or not numbers:
        return 0.0
    return words * min(numbers, 12) / (1.0 + len(text) / 400.0)

"""Which format a file is of: told by its contents, never by its name, and with a second guess."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from surefoot.readers.formats import FileFormat, LineFormat, LogFormat
from surefoot.readers.logs import formats
from surefoot.readers.names import Names
from surefoot.readers.points import Point
from surefoot.readers.text import Line, Source, lines

SAMPLE_LINES = 20_000
SAMPLE_BYTES = 6 << 20
WINDOW = 1 << 20
ENOUGH = 200
"""Points after which a format has shown what it can; more would tell nothing new."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A format and how sure it is, 0 to 1."""

    format: LogFormat
    sure: float


def recognise(source: Source, sample: Sequence[Line]) -> list[Guess]:
    """Formats that a file may be of, the likeliest first; none if nothing was found.

    A line format's sureness is its weight times 1 - 1/(1 + points) for the points with at least
    one known metric that its parser finds in the sample.
    """
    guesses = []
    for fmt in formats().values():
        if isinstance(fmt, LineFormat):
            points = _points(fmt, sample)
            sure = fmt.weight * (1.0 - 1.0 / (1.0 + points))
        else:
            sure = fmt.score(source)
        if sure > 0.0:
            guesses.append(Guess(fmt, sure))
    return sorted(guesses, key=lambda guess: (-guess.sure, guess.format.name))


def sample_of(source: Source) -> list[Line]:
    """Lines by which to judge a file: its beginning, and of a long one its middle and end too."""
    taken: list[Line] = []
    size = 0
    for line in islice(lines(source), SAMPLE_LINES):
        taken.append(line)
        size += len(line.text)
        if size > SAMPLE_BYTES:
            break
    path = source.file
    if path is not None and path.stat().st_size > SAMPLE_BYTES:
        length = path.stat().st_size
        with open(path, "rb") as file:
            for offset in (length // 2, length - WINDOW):
                file.seek(offset)
                window = Source("", io.BytesIO(file.read(WINDOW)))
                taken += islice(lines(window), 1, SAMPLE_LINES)  # the first one is cut
    return taken


def _points(fmt: LineFormat, sample: Iterable[Line]) -> int:
    parser, names, count = fmt.parser(), Names(fmt.names), 0
    for line in sample:
        if fmt.needles and not any(needle in line.text for needle in fmt.needles):
            continue
        for item in parser.feed(line):
            if isinstance(item, Point) and any(names.of(key).known for key in item.values):
                count += 1
        if count >= ENOUGH:
            return count
    for item in parser.finish():
        if isinstance(item, Point) and any(names.of(key).known for key in item.values):
            count += 1
    return count


def is_file_format(fmt: LogFormat) -> bool:
    """Whether a format is read as a whole file."""
    return isinstance(fmt, FileFormat)

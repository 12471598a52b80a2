"""Which format a file is of: told by its contents, never by its name, and with a second guess."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from surefoot.readers.formats import LineFormat, LogFormat
from surefoot.readers.logs import formats
from surefoot.readers.names import Names
from surefoot.readers.points import Point
from surefoot.readers.text import Line, Source, lines

SAMPLE_LINES = 20_000
SAMPLE_BYTES = 6 << 20
WINDOW = 1 << 20
"""Size of the sample of a file's beginning, and of each of two further in it; a first look takes
an eighth of it, which tells the format of most."""
SURE = 0.9
ENOUGH = 50
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
            points = _points(fmt, sample, source.keys)
            sure = fmt.weight * (1.0 - 1.0 / (1.0 + points))
        else:
            sure = fmt.score(source)
        if sure > 0.0:
            guesses.append(Guess(fmt, sure))
    return sorted(guesses, key=lambda guess: (-guess.sure, guess.format.name))


def guesses_of(path: Path | str, keys: Mapping[str, str] | None = None) -> list[Guess]:
    """As :func:`recognise`, of a file: by a first look and, if that leaves doubt, a longer one.

    A file that is no text is not looked at as lines.
    """
    for share in (8, 1):
        with Source(path, keys=keys) as source:
            if source.binary:
                return recognise(source, [])
            guesses = recognise(source, sample_of(source, share))
        if guesses and guesses[0].sure >= SURE:
            break
    return guesses


def sample_of(source: Source, share: int = 1) -> list[Line]:
    """Lines by which to judge a file: its beginning, and of a long one its middle and end too."""
    taken: list[Line] = []
    size, most = 0, SAMPLE_BYTES // share
    for line in islice(lines(source, most), SAMPLE_LINES // share):
        taken.append(line)
        size += len(line.text)
        if size > most:
            break
    path = source.file
    if path is not None and path.stat().st_size > most:
        length, window = path.stat().st_size, WINDOW // share
        with open(path, "rb") as file:
            for offset in (length // 2, length - window):
                file.seek(offset)
                part = Source("", io.BytesIO(file.read(window)))
                taken += islice(lines(part), 1, SAMPLE_LINES // share)  # the first one is cut
    return taken


def _points(fmt: LineFormat, sample: Iterable[Line], keys: Mapping[str, str]) -> int:
    parser, names, count = fmt.parser(), Names(fmt.names, keys), 0
    parser.step_key = keys.get("step")
    placed, wanted = False, fmt.wanted()
    for line in sample:
        if not wanted(line.text):
            continue
        for item in parser.feed(line):
            if not isinstance(item, Point):
                continue
            placed = placed or item.step is not None  # before a step is told, numbers have no row
            if placed and any(names.of(key).known for key in item.values):
                count += 1
        if count >= ENOUGH:
            return count
    for item in parser.finish():
        if isinstance(item, Point) and any(names.of(key).known for key in item.values):
            count += 1
    return count

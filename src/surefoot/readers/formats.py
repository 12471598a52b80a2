"""What a log format is: a name, how its lines look, and a parser that turns them into points.

Most logs are lines of text. A format of that kind is a :class:`LineFormat`: literal ``needles`` by
which a line is worth looking at, and a :class:`LineParser`, made anew for each file, which is fed
the lines that hold one. Whether a file is of the format is not asked separately: a format's parser
is run over a sample of the file, and what it can read there is the evidence.

A file that is not lines (a table, a database, one JSON document) is a :class:`FileFormat`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from surefoot.readers.points import Item

if TYPE_CHECKING:
    from surefoot.readers.text.line import Line
    from surefoot.readers.text.opening import Source


class LineParser(ABC):
    """Turns the lines of one file into points; holds what must be remembered between lines.

    Attributes:
        step_key: the key that the user says holds the step, as written in the file; None if the
            parser is to find it. Set before the first line; formats with one step key ignore it.
    """

    step_key: str | None = None

    @abstractmethod
    def feed(self, line: "Line") -> Iterable[Item]:
        """The points and notes that this line completes. Must take time linear in its length."""

    def finish(self) -> Iterable[Item]:
        """What is still held when the file ends."""
        return ()


class _ByRank(LineParser):
    """A parser for each rank whose lines are in the file."""

    def __init__(self, make: Callable[[], LineParser]) -> None:
        self._make = make
        self._of: dict[int | None, LineParser] = {}

    def feed(self, line: "Line") -> Iterable[Item]:
        """See the base class."""
        parser = self._of.get(line.rank)
        if parser is None:
            parser = self._of[line.rank] = self._make()
            parser.step_key = self.step_key
        return parser.feed(line)

    def finish(self) -> Iterator[Item]:
        """What each of them still holds."""
        for parser in self._of.values():
            yield from parser.finish()


def by_rank(make: Callable[[], LineParser]) -> Callable[[], LineParser]:
    """For parsers that remember lines (a bar, a block): ranks that write at once do not mix."""
    return lambda: _ByRank(make)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """A format whose records are lines of text.

    Attributes:
        name: as ``--format-in`` takes it, e.g. ``megatron``.
        title: what people call it, e.g. ``Megatron-LM``.
        parser: makes a parser for one file.
        needles: a line without any of these texts is not fed to the parser. ``()`` = every line.
        names: keys of this format whose meaning the common table cannot know:
            key -> (signal, factor into the catalogue's unit).
        weight: how much a point of this format counts in recognition: 1 for one whose lines
            nothing else prints, less for looser grammars (0.3 for any ``key: value``).
        separator: one character between the fields, if records are lines of their own that do not
            depend on one another (no state between them but for the last step told): such lines
            are read many at a time (``readers/columnar``). None: line by line.
        log_base: of the logarithm in which losses are printed; e (nats) but for fairseq (2).
        per: ``step`` or ``interval``: whether counters such as skipped iterations are of the step
            printed, or sums since the line before.
    """

    name: str
    title: str
    parser: Callable[[], LineParser]
    needles: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    weight: float = 1.0
    log_base: float | None = None
    separator: str | None = None

    def wanted(self) -> Callable[[str], bool]:
        """Whether a line is worth feeding to a parser, as a function of its text."""
        needles = self.needles
        if not needles:
            return lambda text: True
        if len(needles) == 1:
            only = needles[0]
            return lambda text: only in text
        if len(needles) == 2:
            one, two = needles
            return lambda text: one in text or two in text
        search = re.compile("|".join(map(re.escape, needles))).search
        return lambda text: search(text) is not None


class FileFormat(ABC):
    """A format that is read as a whole file: a table, a database, one JSON document.

    Subclasses set ``name``, ``title``, ``names`` as in :class:`LineFormat`. Which keys the user
    named, ``step`` among them, is in ``source.keys``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    names: ClassVar[Mapping[str, tuple[str, float]]] = {}
    log_base: ClassVar[float | None] = None

    @abstractmethod
    def score(self, source: "Source") -> float:
        """How sure it is that the file is of this format, 0 to 1, from ``source.head``.

        Must be cheap (a look at the first bytes, at most one pass over 64 KB) and never raise.
        """

    @abstractmethod
    def read(self, source: "Source") -> Iterator[Item]:
        """The file's points. Damage ends the points with a Note of kind ``unusable``.

        Raises:
            LogError: if nothing at all can be made of it.
        """


LogFormat = LineFormat | FileFormat

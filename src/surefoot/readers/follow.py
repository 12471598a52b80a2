"""A log that is read while it is written: rows come out as soon as they are whole."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from surefoot.readers.assemble import assemble
from surefoot.readers.formats import LineFormat, LogFormat
from surefoot.readers.gather import Gatherer
from surefoot.readers.logs import formats
from surefoot.readers.recognise import Guess, recognise
from surefoot.readers.run import names_of, parsed, read_run
from surefoot.readers.text import Line, Source, lines
from surefoot.readers.unknown import no_metrics_in
from surefoot.records import Run, StepRecord

ENOUGH = 0.7
"""Sureness with which the rest of the input is awaited no longer: three records of a format."""
PATIENCE = 4096
"""Lines after which the best guess is taken."""
KEPT = 200_000
"""Lines that are kept while the format is not known."""


class Following:
    """Standard input as a run that goes on.

    ::

        following = Following()
        for record in following.records():     # a StepRecord a row, as rows become whole
            verdict = detector.update(record)
        run = following.run()                  # all that was read

    Args:
        format_in: name of the format, in place of recognition.
        mapping: signal -> key as the trainer wrote it.
        source: another stream than standard input.
    """

    def __init__(
        self,
        *,
        format_in: str | None = None,
        mapping: Mapping[str, str] | None = None,
        source: Source | None = None,
    ) -> None:
        self._mapping = dict(mapping or {})
        self._source = source if source is not None else Source("-", keys=self._mapping)
        self._forced = formats().lookup(format_in) if format_in else None
        self._gatherer: Gatherer | None = None
        self._guesses: list[Guess] = []
        self._whole: Run | None = None
        self._seen: list[Line] = []

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._source.name

    @property
    def title(self) -> str:
        """What it is read as, once that is known."""
        return self._guesses[0].format.title if self._guesses else "a log"

    def records(self) -> Iterator[StepRecord]:
        """The rows, each when the next one begins or the input ends.

        Raises:
            LogError: if the input ends and no metrics were found in it.
        """
        if self._is_file():
            return
        incoming = lines(self._source)
        held = self._seen
        fmt = self._format(incoming, held)
        assert isinstance(fmt, LineFormat)
        self._gatherer = Gatherer(names_of(fmt, self._mapping))
        here: tuple[int, int] | None = None
        waiting = list(held)
        held.clear()
        for item in parsed(fmt, chain(waiting, incoming), self._mapping.get("step")):
            row = self._gatherer.take(item)
            if row is not None and here is not None and row != here and _later(row, here):
                yield self._record(here)
            if row is not None and (here is None or _later(row, here)):
                here = row
        if here is not None:
            yield self._record(here)

    def run(self) -> Run:
        """All that was read so far; nothing can be read afterwards."""
        if self._whole is None:
            if self._gatherer is None:
                raise no_metrics_in(self._source, self._seen)
            gathered = self._gatherer.gathered()
            if not len(gathered.frame):
                raise no_metrics_in(self._source, [])
            if self._source.damage:
                gathered.problems.append(self._source.damage)
            self._whole = assemble(["-"], [(Path("-"), gathered, self._guesses)], [])
        return self._whole

    def _is_file(self) -> bool:
        """Whether the input is no lines (a table, a database): then it is read as a whole."""
        if self._forced is not None and isinstance(self._forced, LineFormat):
            return False
        head = recognise(self._source, [])
        if self._forced is None and (not head or head[0].sure < ENOUGH):
            return False
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "standard input"
            with open(copy, "wb") as file, suppress(KeyboardInterrupt):
                for chunk in self._source.chunks():
                    file.write(chunk)
            name = self._forced.name if self._forced is not None else None
            self._whole = read_run(copy, format_in=name, mapping=self._mapping)
        return True

    def _format(self, incoming: Iterator[Line], held: list[Line]) -> LogFormat:
        """The format, as soon as the lines so far tell it; they stay in ``held``."""
        if self._forced is not None:
            self._guesses = [Guess(self._forced, 1.0)]
            return self._forced
        due = 1
        for line in incoming:
            held.append(line)
            if len(held) == due:
                due *= 2
                guesses = [g for g in recognise(self._source, held) if _lined(g)]
                least = ENOUGH if len(held) < PATIENCE else 0.0
                if guesses and guesses[0].sure > least:
                    self._guesses = guesses
                    return guesses[0].format
            if len(held) > KEPT:
                del held[: KEPT // 2]
        self._guesses = [g for g in recognise(self._source, held) if _lined(g)]
        if not self._guesses:
            raise no_metrics_in(self._source, held)
        return self._guesses[0].format

    def _record(self, row: tuple[int, int]) -> StepRecord:
        assert self._gatherer is not None
        attempt, step = row
        return StepRecord(step=step, attempt=attempt, values=self._gatherer.table.row(*row))


def _lined(guess: Guess) -> bool:
    return isinstance(guess.format, LineFormat)


def _later(row: tuple[int, int], than: tuple[int, int]) -> bool:
    """Whether a row comes after another: of a later attempt, or of a later step."""
    return row[0] > than[0] or (row[0] == than[0] and row[1] > than[1])

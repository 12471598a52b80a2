"""Public logs of real training runs, labelled: what a detector finds in them, and what falsely.

The logs are no part of surefoot. ``corpus_labels.toml`` holds what happens in each; the folder is
named by ``score.py --corpus FOLDER``, and logs that it lacks are passed over.
"""

import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

from surefoot.detect.rows import step_records
from surefoot.readers import read_run
from surefoot.records import Run, StepRecord
from surefoot.testing.match import Alarm
from surefoot.testing.truth import Truth

LABELS = Path(__file__).parent / "corpus_labels.toml"
VARIABLE = "SUREFOOT_CORPUS"
"""Environment variable that holds the folder, so that child processes know it, too."""
SLACK = 20
"""Records after the end of an event in which an alarm still finds it."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Label:
    """What happens in one log.

    Attributes:
        path: relative to the folder.
        events: first and last step of each.
        unsure: the same of what is neither right nor wrong to tell.
        note: in words.
    """

    path: str
    events: tuple[Span, ...]
    unsure: tuple[Span, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """A log as a case."""

    truth: Truth
    label: Label
    run: Run
    rows: list[StepRecord]

    @property
    def vocab_size(self) -> int | None:
        """Tokens, where the log's configuration says so."""
        return self.run.spec.architecture.vocab_size

    @property
    def places(self) -> Mapping[str, tuple[str, ...]]:
        """Names of places, as read."""
        return self.run.places

    def records(self) -> Iterator[StepRecord]:
        """Every record."""
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class Tally:
    """What a detector made of one log.

    Attributes:
        found: events found.
        events: how many there are.
        false: steps of alarms at nothing.
        records: records that are no part of an event.
    """

    found: int
    events: int
    false: tuple[int, ...]
    records: int


def labels(path: Path = LABELS) -> list[Label]:
    """The labels, whether or not the logs are there."""
    entries = tomllib.loads(path.read_text("utf-8"))["log"]
    return [
        Label(
            path=entry["path"],
            events=tuple((first, last) for first, last in entry["events"]),
            unsure=tuple((first, last) for first, last in entry.get("unsure", [])),
            note=entry.get("note", ""),
        )
        for entry in entries
    ]


def folder() -> Path | None:
    """The folder of the logs, if one was named and exists."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


@lru_cache(maxsize=1)
def present() -> tuple[Label, ...]:
    """Labels of the logs that are there."""
    root = folder()
    return tuple(label for label in labels() if root is not None and (root / label.path).is_file())


def load(name: str, index: int) -> tuple[Log, list[StepRecord]]:
    """The log ``index`` of those present."""
    root, label = folder(), present()[index]
    assert root is not None
    run = read_run(root / label.path)
    rows = list(step_records(run.signals))
    truth = Truth(
        case=label.path,
        set="corpus",
        kind="log",
        group="corpus",
        cause="",
        healthy=not label.events,
        steps=rows[-1].step if rows else 0,
    )
    return Log(truth, label, run, rows), rows


def tally(label: Label, alarms: Sequence[Alarm], steps: Sequence[int]) -> Tally:
    """Match alarms with events.

    An event is found by an alarm from one record before it to :data:`SLACK` records after it, or by
    one that began before and still went on in it. An alarm in reach of no event and of nothing
    unsure is false.

    Args:
        label: of the log.
        alarms: of the detector.
        steps: steps of the records, rising.
    """
    every = median(b - a for a, b in itertools.pairwise(steps)) if len(steps) > 1 else 1

    def reaches(span: Span, alarm: Alarm) -> bool:
        first, last = span[0] - every, span[1] + SLACK * every
        return alarm.step <= last and (alarm.last or alarm.step) >= first

    found = sum(
        any(reaches(event, alarm) or alarm.whole_run for alarm in alarms) for event in label.events
    )
    near = [*label.events, *label.unsure]
    false = tuple(
        alarm.step
        for alarm in alarms
        if (
            not label.events
            if alarm.whole_run
            else not any(s - every <= alarm.step <= e + SLACK * every for s, e in near)
        )
    )
    healthy = sum(not any(s <= step <= e for s, e in label.events) for step in steps)
    return Tally(found, len(label.events), false, healthy)

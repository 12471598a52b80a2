"""What was read of one or several files, as one Run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.readers.attempts import overlaps, winning, without_strays
from surefoot.readers.configs import Configs
from surefoot.readers.gaps import gaps_of
from surefoot.readers.names import Name
from surefoot.readers.places import fold_places
from surefoot.readers.recognise import Guess
from surefoot.readers.several import (
    Read,
    doubt_of,
    in_order,
    one_family,
    united,
    without_repeats,
)
from surefoot.records import CheckpointInfo, Event, Run, Source, TrainSpec

if TYPE_CHECKING:
    import polars

FACTS = {
    "steps": "schedule.steps",
    "vocab_size": "architecture.vocab_size",
    "world_size": "parallelism.world_size",
    "global_batch_size": "batch.global_size",
}
"""What logs state of what was asked, and the field of the normal form that it is."""


def assemble(
    paths: Sequence[str],
    read: Sequence[Read],
    problems: Sequence[str],
    asked: Configs | None = None,
) -> Run:
    """One Run of some files.

    Files that tell other quantities of the same steps are joined; files that tell the same ones
    are taken as attempts, one after another, but those that only repeat a longer one.

    Args:
        paths: as the user named them.
        read: what each file held, in the order of their names.
        problems: files that could not be read.
        asked: what the configuration files beside them say.
    """
    chosen, left = one_family(read)
    chosen, repeated = without_repeats(in_order(chosen))
    frame, added = united([gathered.frame for _, gathered, _ in chosen])
    told = [*problems, *doubt_of(chosen, added)]
    names: dict[str, Name] = {}
    facts: dict[str, Any] = {}
    events: list[Event] = []
    checkpoints: dict[int, CheckpointInfo] = {}
    for (path, gathered, _), before in zip(chosen, added, strict=True):
        several = f"{path.name}: " if len(chosen) > 1 else ""
        told += [f"{several}{problem}" for problem in gathered.problems]
        told += [
            f"{several}{count:,} lines tell another {column} of a step; the first one told stays"
            for column, count in gathered.conflicts.items()
            if column == "loss"
        ]
        for column, name in gathered.names.items():
            names.setdefault(column, name)
        facts = {**gathered.facts, **facts}
        events += [replace(event, attempt=event.attempt + before) for event in gathered.events]
        checkpoints.update({info.step: info for info in gathered.checkpoints})
    for _, gathered, _ in repeated:
        facts = {**gathered.facts, **facts}
        for info in gathered.checkpoints:
            checkpoints.setdefault(info.step, info)
    frame = _whole_machine(frame, names, facts)
    frame, strays = without_strays(frame)
    told += strays
    kept, lost = winning(frame)
    told += gaps_of(kept)
    shared = overlaps(frame)
    kept, places = fold_places(kept)
    lost, _ = fold_places(lost)
    reading = {
        **_described(chosen[0][2]),
        "files": [str(path) for path, _, _ in chosen],
        "not_read": [str(path) for path, _, _ in left],
        "repeated": [str(path) for path, _, _ in repeated],
        "settings": [] if asked is None else sorted({file.path for file in asked.files}),
        "attempts": _attempts(frame),
        "overlaps": shared,
        "fields": {
            column: {"key": name.key, "factor": name.factor, "known": name.known}
            for column, name in names.items()
        },
        "facts": facts,
    }
    named = paths[0] if len(paths) == 1 else str(chosen[0][0])
    label = Path(named).name if named != "-" else "standard input"
    return Run(
        name=label,
        spec=_spec(label, chosen[0], facts, asked),
        signals=kept,
        superseded=lost if len(lost) else None,
        places=places,
        events=tuple(events),
        checkpoints=tuple(checkpoints[step] for step in sorted(checkpoints)),
        problems=tuple(told),
        path=paths[0],
        reading=reading,
    )


def _spec(label: str, first: Read, facts: Mapping[str, Any], asked: Configs | None) -> TrainSpec:
    """What was asked: what the log itself states, and beyond it the configuration files."""
    spec = asked.spec if asked is not None else TrainSpec(trainer=first[2][0].format.title)
    source = Source(kind="log", file=str(first[0]))
    sources = dict(spec.sources)
    sections: dict[str, Any] = {}
    for fact, path in FACTS.items():
        section, _, name = path.partition(".")
        value = facts.get(fact)
        held = sections.get(section, getattr(spec, section))
        # What the log itself says is of this run; a file beside it may be of another.
        if isinstance(value, int) and value > 0:
            sections[section] = replace(held, **{name: value})
            sources[path] = source
    return replace(spec, name=spec.name or label, sources=sources, **sections)


def _described(guesses: Sequence[Guess]) -> dict[str, Any]:
    best, *rest = guesses
    second = {"format": rest[0].format.name, "sure": round(rest[0].sure, 3)} if rest else None
    return {
        "format": best.format.name,
        "title": best.format.title,
        "sure": round(best.sure, 3),
        "second": second,
    }


def _whole_machine(
    frame: "polars.DataFrame", names: dict[str, Name], facts: Mapping[str, Any]
) -> "polars.DataFrame":
    """Tokens per second of all devices, where those of one are told and their number is known."""
    import polars as pl

    one, all_of_them = "tokens_per_second_per_device", "tokens_per_second"
    devices = facts.get("world_size")
    if one not in frame.columns or all_of_them in frame.columns or not isinstance(devices, int):
        return frame
    key = names[one].key if one in names else one
    names[all_of_them] = Name(all_of_them, float(devices), key, True)
    return frame.with_columns((pl.col(one) * devices).alias(all_of_them))


def _attempts(frame: "polars.DataFrame") -> list[dict[str, int]]:
    import polars as pl

    told = frame.group_by("attempt").agg(
        pl.col("step").min().alias("first"),
        pl.col("step").max().alias("last"),
        pl.len().alias("rows"),
    )
    return [
        {"attempt": int(a), "first": int(f), "last": int(last), "rows": int(n)}
        for a, f, last, n in told.sort("attempt").rows()
    ]

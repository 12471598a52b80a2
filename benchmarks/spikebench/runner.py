"""Runs every contestant over every case, in several processes, and keeps what is done.

A case's results lie in one file of a work folder, named by what they rest on; a run that was killed
goes on where it stopped, and a contestant whose code changed is run again, alone.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contestants import Case, Contestant, Raised, all_contestants

from surefoot.errors import UsageError
from surefoot.records import StepRecord
from surefoot.testing.match import Alarm
from surefoot.testing.truth import Truth

Load = Callable[[str, int], "tuple[Case, list[StepRecord]]"]
"""Name of a set and index to the case and its records; must be importable by a child process."""


@dataclass(frozen=True, slots=True)
class Done:
    """One case, judged by every contestant.

    Attributes:
        truth: of the case.
        steps: of its records.
        raised: by contestant.
    """

    truth: Truth
    steps: list[int]
    raised: dict[str, Raised]

    @property
    def records(self) -> int:
        """How many records it has."""
        return len(self.steps)


def run_set(
    load: Load, name: str, count: int, work: Path, *, jobs: int = 2, only: Iterable[str] = ()
) -> list[Done]:
    """Judge the ``count`` cases of a set.

    Args:
        load: gives a case.
        name: of the set.
        count: how many cases it has.
        work: folder for what is done; made if missing.
        jobs: processes.
        only: names of contestants; default all.

    Returns:
        the cases in order; those that could not be read are told and left out.
    """
    (work / name).mkdir(parents=True, exist_ok=True)
    wanted = tuple(only) or tuple(row.name for row in all_contestants())
    done: dict[int, Done | None] = {}
    if jobs <= 1:
        for index in range(count):
            done[index] = _tried(load, name, index, work, wanted)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            waiting = {
                pool.submit(_tried, load, name, index, work, wanted): index
                for index in range(count)
            }
            for number, future in enumerate(as_completed(waiting), start=1):
                done[waiting[future]] = future.result()
                if number % 20 == 0 or number == count:
                    print(f"{name}: {number} of {count} cases", file=sys.stderr)
    return [one for index in range(count) if (one := done[index]) is not None]


def _tried(load: Load, name: str, index: int, work: Path, wanted: Sequence[str]) -> Done | None:
    """As :func:`run_case`; a case that cannot be read, as its set is being made, is left out."""
    try:
        return run_case(load, name, index, work, wanted)
    except UsageError as error:
        print(f"{name}: left out: {error}", file=sys.stderr)
        return None


def run_case(load: Load, name: str, index: int, work: Path, wanted: Sequence[str]) -> Done:
    """Judge one case by the contestants named, those that are done already aside."""
    case, records = load(name, index)
    path = work / name / f"{_safe(case.truth.case)}.json"
    key = _digest(case, records)
    kept = _kept(path, key)
    rows = [row for row in all_contestants() if row.name in wanted]
    fresh = {row.name: row.run(case, records) for row in rows if not _current(kept, row)}
    raised = {}
    for row in rows:
        if row.name in fresh:
            raised[row.name] = fresh[row.name]
            kept[row.name] = {"digest": row.digest, "raised": asdict(fresh[row.name])}
        else:
            raised[row.name] = _raised(kept[row.name]["raised"])
    if fresh:
        part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        part.write_text(json.dumps({"key": key, "rows": kept}), "utf-8")
        part.replace(path)
    return Done(case.truth, [record.step for record in records], raised)


def _current(kept: dict[str, Any], row: Contestant) -> bool:
    return bool(kept.get(row.name, {}).get("digest") == row.digest)


def _kept(path: Path, key: str) -> dict[str, Any]:
    """Results of the same case; an unreadable file or one of another case holds none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(found["rows"]) if found.get("key") == key else {}


def _raised(entry: dict[str, Any]) -> Raised:
    alarms = [
        Alarm(
            **{
                **alarm,
                "causes": tuple(alarm["causes"]),
                "first_causes": tuple(alarm["first_causes"]),
            }
        )
        for alarm in entry["alarms"]
    ]
    return Raised(alarms, entry["seconds"], entry["able"])


def _digest(case: Case, records: Sequence[StepRecord]) -> str:
    """Of what a contestant sees, and of the injection, by which flags are split."""
    fields = tuple(Alarm.__dataclass_fields__)  # results of an older form are not used
    total = hashlib.sha256(repr((fields, case.truth.injection_step, case.truth.steps)).encode())
    for record in records:
        total.update(repr((record.step, record.attempt, sorted(record.values.items()))).encode())
        for name in sorted(record.places):
            total.update(record.places[name].tobytes())
    return total.hexdigest()[:16]


def _safe(name: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    return f"{kept[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

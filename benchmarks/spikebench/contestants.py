"""The rows of the table: surefoot online and offline, the baselines, and the packages as they are.

A contestant takes the records of a case and gives back the alarms that it raised.
"""

import functools
import hashlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import baselines
import peers

import surefoot
from surefoot.detect import LossDetector, SpikeDetector, diagnose
from surefoot.records import Finding, Run, StepRecord
from surefoot.testing.match import Alarm, from_findings, from_flags
from surefoot.testing.truth import Truth

ONLINE, OFFLINE, LOSS_ONLY = "surefoot online", "surefoot offline", "surefoot, loss and norm only"


class Case(Protocol):
    """A case of any set: stored, synthetic or a log."""

    @property
    def truth(self) -> Truth:
        """What was planted, and what came of it."""

    @property
    def vocab_size(self) -> int | None:
        """Tokens of the model, if known."""

    @property
    def places(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the places of each per-place signal."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What a contestant raised on one case.

    Attributes:
        alarms: by step.
        seconds: processor time that it took, reading the records not counted.
        able: whether a signal that it watches was there.
    """

    alarms: list[Alarm]
    seconds: float
    able: bool = True


Judge = Callable[[Case, Sequence[StepRecord]], Raised]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row.

    Attributes:
        name: as in the table.
        run: records of a case to what was raised.
        digest: of the code behind it: a result of other code is not used again.
        setting: its threshold.
        has_causes: whether it names causes.
        has_ends: whether it says that a loss came back, or did not.
    """

    name: str
    run: Judge
    digest: str
    setting: str = ""
    has_causes: bool = False
    has_ends: bool = False


def all_contestants() -> list[Contestant]:
    """Every row that runs in this process, in the order of the table."""
    root = Path(surefoot.__file__).parent
    detect = digest([*sorted((root / "detect").rglob("*.py")), root / "records" / "step.py"])
    setting = "false alarms held to 0.5 per 10 000 steps"
    rows = [
        Contestant(ONLINE, online, detect, setting, has_causes=True, has_ends=True),
        Contestant(OFFLINE, offline, detect, setting, has_causes=True, has_ends=True),
        Contestant(LOSS_ONLY, loss_only, detect, "no other signal is looked at", has_ends=True),
    ]
    for index, rule in enumerate(baselines.make_all(1000)):
        sources = {inspect.getfile(type(rule)), inspect.getfile(baselines.Baseline)}
        rows.append(
            Contestant(
                rule.name,
                _baseline(index),
                digest([Path(source) for source in sorted(sources)]),
                rule.setting,
            )
        )
    return rows + peer_contestants()


def peer_contestants() -> list[Contestant]:
    """The packages, where an environment of theirs was named."""
    python = peers.interpreter()
    if python is None:
        return []
    own = digest([Path(peers.__file__), peers.DRIVER])
    return [
        Contestant(f"{name} {version}", _peer(name), f"{own}-{version}", "its defaults")
        for name, version in _versions(python).items()
    ]


@functools.cache
def _versions(python: str) -> dict[str, str]:
    return peers.installed(python)


def digest(sources: Sequence[Path]) -> str:
    """Digest of the texts of files."""
    total = hashlib.sha256()
    for source in sources:
        total.update(source.read_bytes())
    return total.hexdigest()[:12]


def online(case: Case, records: Sequence[StepRecord]) -> Raised:
    """Fed step by step, as a run feeds it."""
    detector = SpikeDetector(vocab_size=case.vocab_size, places=case.places or None)
    told, seconds = _follow(detector, records)
    return Raised(from_findings(told), seconds)


def loss_only(case: Case, records: Sequence[StepRecord]) -> Raised:
    """The detector of loss and global gradient norm alone."""
    told, seconds = _follow(LossDetector(vocab_size=case.vocab_size), records)
    return Raised(from_findings(told), seconds)


def _follow(
    detector: SpikeDetector | LossDetector, records: Sequence[StepRecord]
) -> tuple[list[tuple[int, Finding]], float]:
    told: list[tuple[int, Finding]] = []
    started = time.process_time()
    for record in records:
        verdict = detector.update(record)
        if verdict.findings:
            told += [(record.step, finding) for finding in verdict.findings]
    seconds = time.process_time() - started
    if records:
        told += [(records[-1].step, finding) for finding in detector.finish()]
    return told, seconds


def offline(case: Case, records: Sequence[StepRecord]) -> Raised:
    """The whole run at once; an incident's alarm step is in its id."""
    run = getattr(case, "run", None) or as_run(case, records)
    started = time.process_time()
    findings = diagnose(run, vocab_size=case.vocab_size)
    seconds = time.process_time() - started
    told = sorted(
        ((_alarm_step(finding), finding) for finding in findings), key=lambda item: item[0]
    )
    return Raised(from_findings(told), seconds)


def as_run(case: Case, records: Sequence[StepRecord]) -> Run:
    """The case as a run that was read from its folder."""
    import polars

    values = sorted({name for record in records for name in record.values})
    arrays = sorted({name for record in records for name in record.places})
    columns: dict[str, object] = {
        "step": [record.step for record in records],
        "attempt": [record.attempt for record in records],
    }
    for name in values:
        columns[name] = [record.values.get(name) for record in records]
    for name in arrays:
        rows = [record.places.get(name) for record in records]
        columns[f"{name}@places"] = polars.Series(
            [None if row is None else row.tolist() for row in rows],
            dtype=polars.List(polars.Float32),
        )
    return Run(
        name=case.truth.case,
        signals=polars.DataFrame(columns, strict=False),
        places=case.places,
    )


def _alarm_step(finding: Finding) -> int:
    told = finding.evidence.get("alarm_step")
    if told is not None:
        return int(told)
    _, mark, step = str(finding.evidence.get("incident", "")).rpartition("-s")
    if mark and step.isdigit():
        return int(step)
    return finding.place.steps[1] if finding.place.steps else 0


def _baseline(index: int) -> Judge:
    def run(case: Case, records: Sequence[StepRecord]) -> Raised:
        rule = baselines.make_all(case.truth.steps)[index]
        able = any(name in record.values for record in records for name in rule.watches)
        started = time.process_time()
        flags = [record.step for record in records if rule.update(record)]
        seconds = time.process_time() - started
        injection = case.truth.injection_step if case.truth.faulty else None
        return Raised(from_flags(flags, injection=injection), seconds, able)

    return run


def _peer(package: str) -> Judge:
    def run(case: Case, records: Sequence[StepRecord]) -> Raised:
        alarms, seconds = peers.judge(package, case, records)
        return Raised(alarms, seconds)

    return run

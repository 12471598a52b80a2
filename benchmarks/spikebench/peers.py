"""The packages losslint, runmedic and trainpulse, run as they are on exports of the cases.

They live in an environment of their own, so that nothing of theirs comes into surefoot's::

    python -m venv peers && peers/bin/pip install losslint runmedic trainpulse
    python benchmarks/spikebench/score.py --set test --peers peers/bin/python

Each gets a CSV of step, loss, gradient norm and learning rate; trainpulse, whose command is not
installed by its package, gets the same values through its ``Monitor``. What they report of severity
warning or above is an alarm, and a spike of any severity. losslint and runmedic judge a run when it
has ended: an alarm stands at the step that they name, or is about the whole run if they name none.
"""

import csv
import functools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from surefoot.records import StepRecord
from surefoot.testing.match import Alarm, from_flags
from surefoot.testing.truth import Truth

PACKAGES = ("losslint", "runmedic", "trainpulse")
COLUMNS = ("loss", "grad_norm", "learning_rate")
VARIABLE = "SUREFOOT_PEERS_PYTHON"
"""Environment variable that holds the interpreter, so that child processes know it, too."""
DRIVER = Path(__file__).parent / "peers_driver.py"


class HasTruth(Protocol):
    """A case."""

    @property
    def truth(self) -> Truth:
        """Its truth."""


def interpreter() -> str | None:
    """The interpreter of the packages, if one was named and exists."""
    named = os.environ.get(VARIABLE)
    return named if named and Path(named).exists() else None


def installed(python: str) -> dict[str, str]:
    """Versions of the packages that the interpreter has."""
    code = (
        "import json, importlib.metadata as m\n"
        "have = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        f"print(json.dumps({{p: have[p] for p in {PACKAGES!r} if p in have}}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def judge(package: str, case: HasTruth, records: Sequence[StepRecord]) -> tuple[list[Alarm], float]:
    """Alarms of a package on one case, and the seconds that it took."""
    python = interpreter()
    assert python is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.csv"
        export(path, records)
        started = time.perf_counter()
        reported = _driver(python).ask({"package": package, "path": str(path)})
        seconds = time.perf_counter() - started
    return alarms(reported, case.truth), seconds


def export(path: Path, records: Sequence[StepRecord]) -> None:
    """Write the columns that they read; a missing value is an empty cell."""
    names = [name for name in COLUMNS if any(name in record.values for record in records)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step", *names])
        for record in records:
            row = [record.values.get(name) for name in names]
            writer.writerow([record.step, *("" if value is None else repr(value) for value in row)])


def alarms(reported: Sequence[dict[str, Any]], truth: Truth) -> list[Alarm]:
    """Alarms from reports: runs of steps of one check are one; no step means the whole run."""
    steps: set[int] = set()
    whole = []
    for report in reported:
        if report["steps"]:
            steps.update(int(step) for step in report["steps"])
        else:
            whole.append(Alarm(step=truth.steps, code=report["check"], whole_run=True))
    injection = truth.injection_step if truth.faulty else None
    return [*from_flags(sorted(steps), injection=injection), *whole[:1]]


class _Driver:
    """A process of the other interpreter that stays, and answers a line with a line."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, str]) -> list[dict[str, Any]]:
        """The package's reports: ``check``, ``severity``, ``steps``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{request['package']}: {answer['error']}")
        return list(answer["reports"])


@functools.cache
def _driver(python: str) -> _Driver:
    return _Driver(python)

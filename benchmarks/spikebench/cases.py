"""The cases of SpikeBench as they lie on disk: a truth and the records, step by step.

::

    from cases import load
    for case in load("dev"):
        for record in case.records():          # StepRecord, as a detector sees them
            ...
        print(case.truth.kind, case.truth.manifest_step)

A set is a folder: ``truths.json`` and one table a run. A faulty run is stored from its injection
on; what comes before is its clean twin's, bit for bit.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tables

from surefoot.errors import UsageError
from surefoot.records import StepRecord
from surefoot.testing.truth import Truth, read_truths

SETS = Path(__file__).parent / "sets"
VOCAB_SIZE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run and its truth.

    Attributes:
        truth: what was planted, and what came of it.
        folder: of the set.
        vocab_size: of the model: a fresh model's loss is its logarithm.
    """

    truth: Truth
    folder: Path
    vocab_size: int = VOCAB_SIZE

    def records(self) -> Iterator[StepRecord]:
        """Every record of the run, from step 1, the clean twin's prefix first."""
        truth = self.truth
        if truth.twin and truth.twin != truth.case:
            tail, _ = _table(self.folder / f"{truth.case}.table")
            first = tail[0].step
            before, _ = _table(self.folder / f"{truth.twin}.table")
            yield from (record for record in before if record.step < first)
            yield from tail
        else:
            yield from _table(self.folder / f"{truth.case}.table")[0]

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """Names of the places of each per-place signal, in the order of the arrays."""
        return _table(self.folder / f"{self.truth.case}.table")[1]

    def twin(self) -> Iterator[StepRecord]:
        """The clean run that this one is compared with."""
        yield from _table(self.folder / f"{self.truth.twin or self.truth.case}.table")[0]


def load(set_name: str, sets: Path | None = None) -> list[Case]:
    """The cases of a set, in the order of its truths.

    Args:
        set_name: a folder of ``sets``.
        sets: where sets lie; default beside this file.

    Raises:
        UsageError: if there is no such set.
    """
    folder = (sets or SETS) / set_name
    if not (folder / "truths.json").is_file():
        raise UsageError(
            f"no set {set_name!r} in {folder.parent}: make it with "
            f"`python benchmarks/spikebench/generate.py --set {set_name} --seed 1`"
        )
    return [Case(truth=truth, folder=folder) for truth in read_truths(folder / "truths.json")]


@functools.lru_cache(maxsize=32)
def _table(path: Path) -> tuple[list[StepRecord], dict[str, tuple[str, ...]]]:
    return tables.read(path)

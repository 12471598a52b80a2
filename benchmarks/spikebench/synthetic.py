"""The synthetic set: planted faults, a NaN before a spike, and a million healthy steps."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.records import StepRecord
from surefoot.testing.curves import KINDS, VOCABULARY, records
from surefoot.testing.planted import FAULTS, Planted, plant, survival
from surefoot.testing.truth import Truth

QUICK_STEPS = 1000
FAULT_SEEDS = 10
SURVIVAL_SEEDS = 20
HEALTHY_SHARE = 3
"""One in so many of the runs of :data:`surefoot.testing.curves.KINDS`: a million steps."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A healthy curve as a case."""

    truth: Truth
    rows: list[StepRecord]
    vocab_size: int = VOCABULARY
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def records(self) -> Iterator[StepRecord]:
        """Every record."""
        return iter(self.rows)


def names(quick: bool = False) -> list[tuple[str, str, int]]:
    """Every case as (section, kind, seed): sections are faults, survival and healthy."""
    few = 1 if quick else FAULT_SEEDS
    cases = [("faults", kind, seed) for kind in FAULTS for seed in range(few)]
    few = 1 if quick else SURVIVAL_SEEDS
    cases += [("survival", kind, seed) for kind in ("nan", "plain") for seed in range(few)]
    for kind, (_, _, runs) in KINDS.items():
        few = 1 if quick else max(1, round(runs / HEALTHY_SHARE))
        cases += [("healthy", kind, seed) for seed in range(few)]
    return cases


def make(
    section: str, kind: str, seed: int, *, base: int = 1, quick: bool = False
) -> tuple[Planted | Volume, list[StepRecord]]:
    """The case and its records; the same arguments give the same numbers.

    Args:
        section: of :func:`names`.
        kind: of the section.
        seed: of the case.
        base: seed of the whole set: another one makes curves that nobody has seen.
        quick: healthy curves of at most 1000 records.
    """
    # NaN and plain share their seed: they are the same curve but for the NaN.
    salt = zlib.crc32(b"" if section == "survival" else kind.encode())
    rng = np.random.default_rng([base, salt, seed])
    if section == "faults":
        planted = plant(kind, rng, seed=seed)
        return planted, list(planted.records())
    if section == "survival":
        planted = survival(rng, nan=kind == "nan", seed=seed)
        return planted, list(planted.records())
    maker, steps, _ = KINDS[kind]
    rows = records(maker(min(steps, QUICK_STEPS) if quick else steps, rng))
    truth = Truth(
        case=f"{kind} #{seed}",
        set="synthetic",
        kind=kind,
        group="healthy",
        cause="",
        seed=seed,
        healthy=True,
        steps=rows[-1].step,
    )
    return Volume(truth, rows), rows


def sections(truths: Sequence[Truth]) -> dict[str, list[int]]:
    """Indices of the cases by section."""
    found: dict[str, list[int]] = {"faults": [], "survival": [], "healthy": []}
    for index, truth in enumerate(truths):
        section = truth.group if truth.group in ("survival", "healthy") else "faults"
        found[section].append(index)
    return found

"""Which precursors help? Each alone and all together, on a set of SpikeBench.

    python benchmarks/precursors.py --set dev
    python benchmarks/precursors.py --set test --out benchmarks/results/precursors.md

A case counts as warned if a warning comes at or after the fault and before the loss itself leaves
its band (``loss_manifest_step`` of its truth); the lead is the distance to that step. Whatever is
told on a healthy run (clean, look-alike, or a fault without effect) is a false warning. AUROC
compares the largest score of a precursor before the loss leaves its band with the largest on each
healthy run: 0.5 = it knows nothing. Rates carry exact 95 % intervals.
"""

import argparse
import math
import platform
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "spikebench"))

from cases import load

from surefoot.detect.bank import SignalBank
from surefoot.detect.early import EarlyWarning
from surefoot.detect.precursors import ALL, DEFAULT

TOGETHER = "default set together"
CLASSES = {
    "attention-growth": ("attention-growth",),
    "output-logits": ("output-logits",),
    "second-moment": ("second-moment",),
    "rate": ("rate",),
    "precision": ("precision",),
    "data": ("data-batch", "data-region"),
    "hardware": ("hardware",),
    "resume-state": ("resume-state",),
}


@dataclass
class Tally:
    """What one precursor, or a set of them, did."""

    false: list[tuple[str, int, str]] = field(default_factory=list)
    leads: dict[str, dict[str, int]] = field(default_factory=dict)
    faulty: list[float] = field(default_factory=list)
    healthy: list[float] = field(default_factory=list)


@dataclass
class Total:
    """Cases and steps that there were."""

    healthy_steps: int = 0
    cases: dict[str, list[str]] = field(default_factory=dict)


def run(case: Any, rows: dict[str, EarlyWarning]) -> dict[str, tuple[list[Any], dict[int, float]]]:
    """Warnings, and the largest score of each step, by row of the table."""
    bank = SignalBank(case.places)
    found: dict[str, tuple[list[Any], dict[int, float]]] = {name: ([], {}) for name in rows}
    for record in case.records():
        scores = bank.update(record)
        for name, warning in rows.items():
            signs, best = found[name]
            signs += warning.update(record, scores)
            if warning.score > 0.0 and not warning.guarded():
                best[record.step] = warning.score
    return found


def measure(folder: str) -> tuple[dict[str, Tally], Total]:
    names = {name: (name,) for name in ALL} | {TOGETHER: DEFAULT}
    tallies, total = {name: Tally() for name in names}, Total()
    path = Path(folder)
    cases = load(path.name, path.parent) if path.is_dir() else load(folder)
    for case in cases:
        truth = case.truth
        rows = {name: EarlyWarning(chosen) for name, chosen in names.items()}
        found = run(case, rows)
        if truth.healthy:
            first = truth.injection_step or 1
            own = truth.twin == truth.case
            total.healthy_steps += truth.steps if own else truth.steps - first + 1
            for name, (signs, best) in found.items():
                told = [s for s in signs if own or s.step >= first]
                tallies[name].false += [(case.truth.case, s.step, s.precursor) for s in told]
                tallies[name].healthy.append(max(best.values(), default=0.0))
            continue
        if truth.loss_manifest_step is None:
            continue
        total.cases.setdefault(truth.cause, []).append(truth.case)
        start, end = truth.injection_step, truth.loss_manifest_step
        for name, (signs, best) in found.items():
            steps = [s.step for s in signs if start <= s.step < end]
            if steps:
                leads = tallies[name].leads.setdefault(truth.cause, {})
                leads[truth.case] = end - steps[0]
            scores = [score for step, score in best.items() if start <= step < end]
            tallies[name].faulty.append(max(scores, default=0.0))
    return tallies, total


def auroc(faulty: list[float], healthy: list[float]) -> float:
    """Chance that a faulty case scores above a healthy one, ties counting half."""
    pairs = [(a > b) + 0.5 * (a == b) for a in faulty for b in healthy]
    return sum(pairs) / len(pairs) if pairs else math.nan


def poisson_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval of a Poisson mean."""

    def below(mean: float, upto: int) -> float:
        return sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(upto))

    def solve(wanted: float, upto: int) -> float:
        low, high = 1e-9, 10.0 * (count + 10)
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if below(middle, upto) > wanted else (low, middle)
        return high

    lowest = 0.0 if count == 0 else solve(0.975, count)
    return lowest, solve(0.025, count + 1)


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""

    def at_most(chance: float, upto: int) -> float:
        return sum(
            math.comb(total, k) * chance**k * (1 - chance) ** (total - k) for k in range(upto + 1)
        )

    def solve(wanted: float, upto: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if at_most(middle, upto) > wanted else (low, middle)
        return high

    lowest = 0.0 if count == 0 else solve(0.975, count - 1)
    return lowest, 1.0 if count == total else solve(0.025, count)


def table(tallies: dict[str, Tally], total: Total, chosen: str) -> str:
    lines = [
        "# Which precursors help?",
        "",
        f"`python benchmarks/precursors.py --set {chosen}`, {date.today()}, "
        f"Python {platform.python_version()}. {total.healthy_steps} healthy steps; faulty cases "
        "whose loss leaves its band: "
        + ", ".join(f"{cause} {len(cases)}" for cause, cases in sorted(total.cases.items()))
        + ".",
        "",
        "Each cell: share of the cases warned before the loss left its band, and the median lead "
        "in steps. In the default set: " + ", ".join(DEFAULT) + ".",
        "",
    ]
    causes = [c for group in CLASSES.values() for c in group if c in total.cases]
    head = ["precursor", *causes, "false warnings per 10 000 steps", "AUROC"]
    lines += ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for name, tally in tallies.items():
        row = [name]
        for cause in causes:
            leads = list(tally.leads.get(cause, {}).values())
            cases = len(total.cases[cause])
            low, high = share_interval(len(leads), cases)
            cell = f"{len(leads)}/{cases}"
            row.append(f"{cell} ({low:.2f}-{high:.2f}), {median(leads):g}" if leads else cell)
        count = len(tally.false)
        low, high = (bound / total.healthy_steps * 1e4 for bound in poisson_interval(count))
        row.append(f"{count / total.healthy_steps * 1e4:.2f} ({low:.2f}-{high:.2f})")
        row.append(f"{auroc(tally.faulty, tally.healthy):.2f}")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="dev", help="of benchmarks/spikebench/sets, or a folder")
    parser.add_argument("--out", type=Path, help="write the table to this file")
    parser.add_argument("--verbose", action="store_true", help="list every case and false warning")
    given = parser.parse_args()
    tallies, total = measure(given.set)
    text = table(tallies, total, given.set)
    print(text)
    if given.verbose:
        for name, tally in tallies.items():
            print(f"## {name}")
            for case, step, precursor in tally.false:
                print(f"false: {case} step {step} ({precursor})")
            for cause, cases in total.cases.items():
                leads = tally.leads.get(cause, {})
                print(f"{cause}: " + ", ".join(f"{c} {leads.get(c, '-')}" for c in cases))
    if given.out:
        given.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

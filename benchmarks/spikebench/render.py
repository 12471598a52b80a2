"""Outcomes to the tables of RESULTS.md."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from surefoot.testing.intervals import Median, Rate
from surefoot.testing.match import Outcome
from surefoot.testing.score import Scores, early_warning, f1_by_group

NONE = "–"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A markdown table, first column to the left, the others to the right."""
    marks = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in [head, marks, *rows]]


def rate(value: Rate) -> str:
    """``0.97 (0.93 to 0.99)``."""
    if not value.total:
        return NONE
    low, high = value.interval
    return f"{value.value:.3f} ({low:.2f} to {high:.2f})"


def short(value: Rate) -> str:
    """``12/13``."""
    return f"{value.count}/{value.total}" if value.total else NONE


def middle(value: Median) -> str:
    """``3 (2 to 5)``."""
    if not value.total:
        return NONE
    return f"{value.value:g} ({value.low:g} to {value.high:g})"


def number(value: float, digits: int = 2) -> str:
    """A figure, or a dash if there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else NONE


class Row:
    """One detector on one set.

    Args:
        name: of the detector.
        outcomes: of every case; empty if it watches nothing that the set records.
        micros: microseconds a step.
        has_causes: whether it names causes.
        has_ends: whether it says how an incident ended.
    """

    def __init__(
        self,
        name: str,
        outcomes: Sequence[Outcome],
        *,
        micros: float = math.nan,
        has_causes: bool = False,
        has_ends: bool = False,
    ) -> None:
        self.name, self.outcomes, self.micros = name, outcomes, micros
        self.has_causes, self.has_ends = has_causes, has_ends
        self.scores = Scores.of(outcomes)


MAIN = (
    "detector",
    "recall",
    "of costly faults",
    "by chance",
    "precision",
    "false per 10 000",
    "median delay",
    "median lead",
    "onset error, median",
    "90th pct.",
    "recovered or not, right",
    "cause right, rank 1",
    "rank 1 to 3",
    "NaN survival",
    "µs a step",
)


def main_table(rows: Sequence[Row], survival: Mapping[str, Rate]) -> list[str]:
    """All rows, all columns. Intervals are 95 %."""
    body = []
    for row in rows:
        scores = row.scores
        low, high = scores.false_interval
        alive = survival.get(row.name, Rate(0, 0))
        body.append(
            [
                row.name,
                rate(scores.recall),
                rate(scores.costly),
                number(scores.chance),
                rate(scores.precision),
                f"{number(scores.false_per_10k)} ({number(low)} to {number(high)})",
                middle(scores.delay),
                middle(scores.lead),
                middle(scores.onset),
                number(scores.onset_90.value, 0),
                rate(scores.end_right) if row.has_ends else NONE,
                rate(scores.cause_first) if row.has_causes else NONE,
                rate(scores.cause_third) if row.has_causes else NONE,
                f"{alive.value:.2f}" if alive.total else NONE,
                number(row.micros, 1),
            ]
        )
    return table(MAIN, body)


def group_table(rows: Sequence[Row]) -> list[str]:
    """F1 by group of kinds, the best of each group in bold."""
    scored = {row.name: f1_by_group(row.outcomes) for row in rows}
    groups = sorted({group for found in scored.values() for group in found})
    best = {group: max(found.get(group, 0.0) for found in scored.values()) for group in groups}
    body = []
    for name, found in scored.items():
        cells = []
        for group in groups:
            value = found.get(group, math.nan)
            text = number(value)
            cells.append(f"**{text}**" if value == best[group] and value > 0 else text)
        body.append([name, *cells])
    return table(["F1", *groups], body)


def kind_table(rows: Sequence[Row]) -> list[str]:
    """Faults found by kind and strength, for each row given."""
    keys = sorted(
        {
            (outcome.truth.group, outcome.truth.kind, outcome.truth.strength)
            for outcome in rows[0].outcomes
            if outcome.found is not None
        }
    )
    body = []
    for key in keys:
        cells = []
        for row in rows:
            own = [
                outcome
                for outcome in row.outcomes
                if outcome.found is not None
                and (outcome.truth.group, outcome.truth.kind, outcome.truth.strength) == key
            ]
            cells.append(short(Rate(sum(bool(outcome.found) for outcome in own), len(own))))
        body.append([" / ".join(part for part in key if part), *cells])
    return table(["group / kind / strength", *[row.name for row in rows]], body)


def cause_table(row: Row) -> list[str]:
    """By kind: how often found, the rank of the right cause, what was named first instead."""
    kinds = sorted({outcome.truth.kind for outcome in row.outcomes if outcome.found})
    body = []
    for kind in kinds:
        own = [outcome for outcome in row.outcomes if outcome.found and outcome.truth.kind == kind]
        ranks = [outcome.cause_rank for outcome in own if outcome.cause_rank is not None]
        wrong = Counter(
            outcome.alarm.causes[0] if outcome.alarm and outcome.alarm.causes else "none named"
            for outcome in own
            if outcome.cause_rank is not None and outcome.cause_rank != 1
        )
        body.append(
            [
                kind + (" (held out)" if own[0].truth.held_out else ""),
                own[0].truth.cause,
                short(Rate(sum(rank == 1 for rank in ranks), len(ranks))),
                short(Rate(sum(1 <= rank <= 3 for rank in ranks), len(ranks))),
                ", ".join(f"{cause} {count}" for cause, count in wrong.most_common(3)) or NONE,
            ]
        )
    return table(["kind", "cause", "rank 1", "rank 1 to 3", "first in place of it"], body)


def early_table(rows: Sequence[Row]) -> list[str]:
    """Early warning by class of faults: share warned before the loss shows it, and the lead."""
    body, names = [], []
    for row in rows:
        found = early_warning(row.outcomes)
        names = list(found)
        cells = []
        for name in names:
            cells += [rate(found[name].warned), middle(found[name].lead)]
        body.append([row.name, *cells])
    head = ["detector"]
    for name in names:
        head += [f"{name}: warned", "lead, steps"]
    return table(head, body)


def false_table(row: Row) -> list[str]:
    """Where the false alarms of one detector come from: kind of healthy run and code."""
    counts: Counter[tuple[str, str]] = Counter()
    steps: Counter[str] = Counter()
    for outcome in row.outcomes:
        steps[outcome.truth.kind] += outcome.healthy_steps
        for alarm in outcome.false_alarms:
            what = " ".join(part for part in (alarm.first_code, alarm.leading) if part)
            counts[outcome.truth.kind, what or "flag"] += 1
    body = [
        [kind, code, str(count), str(steps[kind])]
        for (kind, code), count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return (
        table(["healthy kind", "told first, leading signal", "false alarms", "healthy steps"], body)
        if body
        else []
    )


def case_lines(row: Row) -> list[str]:
    """Every fault that was missed and every false alarm, a line each, for those who tune."""
    lines = []
    for outcome in row.outcomes:
        truth = outcome.truth
        if outcome.found is False:
            lines.append(
                f"missed {truth.case}: injected {truth.injection_step}, manifest "
                f"{truth.manifest_step} ({truth.manifest_signal}), loss "
                f"{truth.loss_manifest_step}, harm {truth.harm_nats:+.3f}, peak "
                f"{truth.peak_nats:+.3f} nat"
            )
        for alarm in outcome.false_alarms:
            lines.append(
                f"false {truth.case}: {alarm.first_code or 'flag'} at {alarm.step} "
                f"({alarm.leading}), onset {alarm.onset}, ended as {alarm.code}"
            )
        if outcome.found and outcome.cause_rank is not None and outcome.cause_rank != 1:
            causes = outcome.alarm.causes if outcome.alarm else ()
            lines.append(
                f"cause {truth.case}: {truth.cause} is rank {outcome.cause_rank or 'none'} of "
                f"{', '.join(causes[:3]) or 'none named'}"
            )
        if outcome.onset_error is not None and outcome.onset_error > 3 and outcome.alarm:
            lines.append(
                f"onset {truth.case}: told {outcome.alarm.onset} at {outcome.alarm.step}, manifest "
                f"{truth.manifest_step} ({truth.manifest_signal})"
            )
        if outcome.end_right is False and outcome.found:
            lines.append(f"end {truth.case}: recovered is {truth.recovered}, not as told")
    return sorted(lines)

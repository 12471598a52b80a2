"""The parts of RESULTS.md: which tables stand on which outcomes."""

from collections.abc import Sequence

import contestants
import corpus
import cost
import plot
import render
import runner
import synthetic

from surefoot.testing.intervals import Rate, poisson_interval
from surefoot.testing.match import Outcome, judge
from surefoot.testing.truth import Truth

TARGETS = {"recall": 0.97, "false": 0.5, "onset": 3.0, "first": 0.75, "third": 0.92}
"""What is to be reached on cases that nobody tuned to."""


def rows_of(done: Sequence[runner.Done]) -> list[render.Row]:
    """The rows of a table; a detector that watches nothing recorded there has none."""
    twins = {item.truth.case for item in done}
    rows = []
    for contestant in contestants.all_contestants():
        own = [item for item in done if contestant.name in item.raised]
        able = [item for item in own if item.raised[contestant.name].able]
        if not able:
            continue
        outcomes = [outcome(item, contestant.name, twins) for item in own]
        seconds = sum(item.raised[contestant.name].seconds for item in own)
        rows.append(
            render.Row(
                contestant.name,
                outcomes,
                micros=1e6 * seconds / max(1, sum(item.records for item in own)),
                has_causes=contestant.has_causes,
                has_ends=contestant.has_ends,
            )
        )
    return rows


def outcome(item: runner.Done, name: str, twins: set[str]) -> Outcome:
    """What a contestant made of one case."""
    return judge(item.truth, item.raised[name].alarms, twins, records=item.records)


def survival(done: Sequence[runner.Done]) -> dict[str, Rate]:
    """By contestant: spikes seen in 10 records after a NaN, of those seen without the NaN."""

    def seen(item: runner.Done, name: str) -> bool:
        begin = item.truth.injection_step or 1
        return any(begin <= alarm.step <= begin + 10 for alarm in item.raised[name].alarms)

    pairs: dict[int, dict[str, runner.Done]] = {}
    for item in done:
        if item.truth.group == "survival":
            pairs.setdefault(item.truth.seed, {})[item.truth.kind] = item
    table = {}
    for contestant in contestants.all_contestants():
        name = contestant.name
        both = [pair for pair in pairs.values() if len(pair) == 2]
        both = [pair for pair in both if name in pair["the same spike"].raised]
        able = [pair for pair in both if seen(pair["the same spike"], name)]
        alive = sum(seen(pair["spike after a NaN"], name) for pair in able)
        # One that sees fewer than half of the spikes has nothing to survive with.
        table[name] = Rate(alive, len(able)) if 2 * len(able) > len(both) else Rate(0, 0)
    return table


def describe(truths: Sequence[Truth], outcomes: Sequence[Outcome]) -> str:
    """One sentence on what a set holds."""
    faulty = [truth for truth in truths if truth.faulty]
    harmless = [t for t in truths if t.healthy and t.group not in ("clean", "look-alike")]
    steps = sum(outcome.healthy_steps for outcome in outcomes)
    return (
        f"{len(truths)} cases: {len(faulty)} faults of {len({t.kind for t in faulty})} kinds, "
        f"{len(truths) - len(faulty)} healthy ones ({len(harmless)} of them planted without any "
        f"effect); {steps} healthy steps, none counted twice."
    )


def targets(row: render.Row) -> list[str]:
    """What was to be reached on fresh cases, and what was."""
    scores = row.scores
    lines = [
        ("recall", f">= {TARGETS['recall']}", scores.recall.value,
         scores.recall.value >= TARGETS["recall"]),
        ("false alarms per 10 000 steps", f"<= {TARGETS['false']}", scores.false_per_10k,
         scores.false_per_10k <= TARGETS["false"]),
        ("onset error, median", f"<= {TARGETS['onset']:g}", scores.onset.value,
         scores.onset.value <= TARGETS["onset"]),
        ("the same as told with the alarm", "", scores.first_onset.value, None),
        ("cause right at rank 1", f">= {TARGETS['first']}", scores.cause_first.value,
         scores.cause_first.value >= TARGETS["first"]),
        ("the same as told with the alarm", "", scores.first_cause.value, None),
        ("cause right at rank 1 to 3", f">= {TARGETS['third']}", scores.cause_third.value,
         scores.cause_third.value >= TARGETS["third"]),
    ]  # fmt: skip
    body = [
        [name, asked, render.number(value), {True: "yes", False: "no", None: ""}[reached]]
        for name, asked, value, reached in lines
    ]
    return render.table(["figure of surefoot online", "to reach", "measured", "reached"], body)


def stored_sections(done: Sequence[runner.Done], alive: dict[str, Rate]) -> list[str]:
    """The part of the report on a stored set."""
    rows = rows_of(done)
    own = next((row for row in rows if row.name == contestants.ONLINE), None)
    parts = [describe([item.truth for item in done], rows[0].outcomes), ""]
    if own is not None:
        parts += [*targets(own), ""]
    parts += [
        "### All detectors",
        "",
        *render.main_table(rows, alive),
        "",
        "### F1 by group of kinds",
        "",
        *render.group_table(rows),
        "",
        "### Early warning",
        "",
        "Share of the faults with an alarm before the loss itself left its band, of those in which "
        "it ever does, and by how many steps. What each precursor does alone: "
        "`python benchmarks/precursors.py --set test`.",
        "",
        *render.early_table(rows),
        "",
        "### Faults found by kind",
        "",
        *render.kind_table([row for row in rows if row.name != contestants.OFFLINE]),
        "",
    ]
    if own is None:
        return parts
    parts += ["### Causes by kind, surefoot online", "", *render.cause_table(own), ""]
    false = render.false_table(own)
    if false:
        parts += ["### False alarms of surefoot online", "", *false, ""]
    return parts


def synthetic_sections(done: Sequence[runner.Done]) -> list[str]:
    """The part of the report on synthetic curves."""
    found = synthetic.sections([item.truth for item in done])
    faults = rows_of([done[index] for index in found["faults"]])
    healthy = rows_of([done[index] for index in found["healthy"]])
    head = ["detector", "false alarms", "healthy records", "per 10 000", "95 % interval", "µs"]
    body = []
    for row in healthy:
        low, high = row.scores.false_interval
        body.append(
            [
                row.name,
                str(row.scores.false_alarms),
                str(row.scores.healthy_steps),
                render.number(row.scores.false_per_10k, 3),
                f"{low:.3f} to {high:.3f}",
                render.number(row.micros, 1),
            ]
        )
    return [
        "### Planted faults found",
        "",
        *render.kind_table(faults),
        "",
        "### Healthy curves",
        "",
        *render.table(head, body),
        "",
    ]


def corpus_sections(done: Sequence[runner.Done]) -> list[str]:
    """The part of the report on labelled public logs."""
    body = []
    missed: dict[str, list[str]] = {}
    by_path = {label.path: label for label in corpus.present()}
    for contestant in contestants.all_contestants():
        tallies = []
        for item in done:
            raised = item.raised.get(contestant.name)
            if raised is not None and raised.able:
                label = by_path[item.truth.case]
                tallies.append(corpus.tally(label, raised.alarms, item.steps))
                found = tallies[-1]
                if found.found < found.events or found.false:
                    missed.setdefault(contestant.name, []).append(
                        f"{label.path}: {found.found} of {found.events} found"
                        f"{f', false at {list(found.false)}' if found.false else ''}"
                    )
        if not tallies:
            continue
        false = sum(len(one.false) for one in tallies)
        healthy = sum(one.records for one in tallies)
        low, high = (1e4 * bound / healthy for bound in poisson_interval(false))
        found_of = Rate(sum(one.found for one in tallies), sum(one.events for one in tallies))
        body.append(
            [
                contestant.name,
                render.rate(found_of),
                str(false),
                str(healthy),
                f"{1e4 * false / healthy:.2f} ({low:.2f} to {high:.2f})",
            ]
        )
    head = ["detector", "events found", "false alarms", "healthy records", "per 10 000"]
    parts = [
        f"{len(done)} logs of real runs, labelled by hand and by a two-sided median "
        "(`corpus_labels.toml`); most hold the loss alone, many every fifth or tenth step only.",
        "",
        *render.table(head, body),
        "",
    ]
    if missed.get(contestants.ONLINE):
        parts += ["Of surefoot online, missed or false:", ""]
        parts += [f"- {line}" for line in missed[contestants.ONLINE]] + [""]
    return parts


def cost_sections() -> list[str]:
    """What a step of surefoot online costs, measured in this process."""
    head = ["surefoot online watches", "µs a step, at most", "measured"]
    return ["## Cost", "", *render.table(head, cost.table()), ""]


def settings() -> list[str]:
    """The rows' thresholds."""
    body = [[row.name, row.setting] for row in contestants.all_contestants()]
    return ["### Settings", "", *render.table(["detector", "setting"], body), ""]


def picture(rows: Sequence[render.Row], set_name: str) -> str:
    """Recall against false alarms."""
    points = [
        plot.Point(
            row.name,
            row.scores.false_per_10k,
            row.scores.recall.value,
            row.scores.recall.interval,
            own=row.name.startswith("surefoot"),
        )
        for row in rows
        if row.scores.recall.total
    ]
    title = f"SpikeBench, set {set_name}: faults found against false alarms"
    return plot.recall_plot(points, title, (TARGETS["false"], TARGETS["recall"]))

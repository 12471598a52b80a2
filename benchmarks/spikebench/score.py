"""Scores surefoot, the baselines and the packages on SpikeBench: the table and its picture.

    python benchmarks/spikebench/score.py --set dev              # while tuning
    python benchmarks/spikebench/score.py --set test --out benchmarks/spikebench/RESULTS.md
    python benchmarks/spikebench/score.py --set synthetic --quick

What was run is kept in a work folder and used again; a killed run goes on where it stopped.
"""

import argparse
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import cases
import contestants
import corpus
import cost
import peers
import plot
import render
import runner
import synthetic

from surefoot.errors import UsageError
from surefoot.records import StepRecord
from surefoot.testing.intervals import Rate, poisson_interval
from surefoot.testing.match import Outcome, judge
from surefoot.testing.truth import Truth

TARGETS = {"recall": 0.97, "false": 0.5, "onset": 3.0, "first": 0.75, "third": 0.92}
QUICK_CASES = 24


@lru_cache(maxsize=4)
def _set(name: str) -> list[cases.Case]:
    return cases.load(name)


def load(name: str, index: int) -> tuple[contestants.Case, list[StepRecord]]:
    """The case ``index`` of a stored set."""
    case = _set(name)[index]
    return case, list(case.records())


def load_synthetic(name: str, index: int) -> tuple[contestants.Case, list[StepRecord]]:
    """The case ``index`` of the synthetic set; a name that ends in ``-quick`` is its short form."""
    quick = name.endswith("-quick")
    section, kind, seed = synthetic.names(quick)[index]
    case, records = synthetic.make(section, kind, seed, quick=quick)
    return case, records


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


def evaluate(
    set_name: str, work: Path, *, quick: bool, jobs: int, only: Sequence[str]
) -> list[runner.Done]:
    """Run every contestant over a set."""
    loader: Callable[[str, int], tuple[contestants.Case, list[StepRecord]]] = load
    if set_name == "synthetic":
        loader, name = load_synthetic, "synthetic-quick" if quick else "synthetic"
        count = len(synthetic.names(quick))
        # Offline is the same detector; a million steps need not be gone through twice.
        rows = [row.name for row in contestants.all_contestants()]
        only = only or [row for row in rows if row != contestants.OFFLINE]
    elif set_name == "corpus":
        loader, name, count = corpus.load, "corpus", len(corpus.present())
    else:
        name, count = set_name, len(_set(set_name))
        count = min(count, QUICK_CASES) if quick else count
    return runner.run_set(loader, name, count, work, jobs=jobs, only=only)


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
    own = next((row for row in rows if row.name == contestants.ONLINE), rows[0])
    parts = [
        describe([item.truth for item in done], own.outcomes),
        "",
        *targets(own),
        "",
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
        *render.kind_table(rows[:1] + rows[2:]),
        "",
    ]
    if own.has_causes:
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


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="Matching rule and every definition: src/surefoot/testing/match.py",
    )
    parser.add_argument("--set", default="test", help="dev, test, another stored set, or synthetic")
    parser.add_argument("--quick", action="store_true", help="a few cases of each set only")
    parser.add_argument("--no-synthetic", action="store_true", help="the stored set only")
    parser.add_argument("--only", action="append", default=[], help="a row's name; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, help="write the report here, the picture beside it")
    parser.add_argument(
        "--peers", type=Path, help="interpreter of an environment with losslint, runmedic, ..."
    )
    parser.add_argument(
        "--list", action="store_true", help="only what surefoot online missed or told falsely"
    )
    parser.add_argument("--corpus", type=Path, help="folder of the logs of corpus_labels.toml")
    parser.add_argument("--work", type=Path, help="folder for what is done (default: temporary)")
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.gettempdir()) / "surefoot-spikebench"
    if arguments.peers:
        os.environ[peers.VARIABLE] = str(arguments.peers.absolute())
        if peers.interpreter() is None:
            parser.error(f"--peers {arguments.peers}: no such interpreter")
    if arguments.corpus:
        os.environ[corpus.VARIABLE] = str(arguments.corpus.absolute())
        if not corpus.present():
            parser.error(f"--corpus {arguments.corpus}: holds no log of corpus_labels.toml")
    started = time.monotonic()
    try:
        if arguments.list:
            print("\n".join(listed(arguments, work)))
            return 0
        text, svg = report(arguments, work)
    except UsageError as error:
        print(f"score.py: {error}", file=sys.stderr)
        return 2
    print(text)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
        if svg:
            arguments.out.with_suffix(".svg").write_text(svg, encoding="utf-8")
    return 0


def listed(arguments: argparse.Namespace, work: Path) -> list[str]:
    """What surefoot online missed, told falsely, or explained wrongly, case by case."""
    name = contestants.ONLINE
    done = evaluate(arguments.set, work, quick=arguments.quick, jobs=arguments.jobs, only=[name])
    return [line for row in rows_of(done) if row.name == name for line in render.case_lines(row)]


def report(arguments: argparse.Namespace, work: Path) -> tuple[str, str]:
    """The whole report and its picture."""
    options = {"quick": arguments.quick, "jobs": arguments.jobs, "only": arguments.only}
    curves: list[runner.Done] = []
    if not arguments.no_synthetic or arguments.set == "synthetic":
        curves = evaluate("synthetic", work, **options)
    parts = [
        "# SpikeBench: results",
        "",
        f"{date.today()}, Python {platform.python_version()}, {platform.machine()}"
        f"{', quick form' if arguments.quick else ''}. Command: "
        f"`python benchmarks/spikebench/score.py --set {arguments.set}"
        f"{' --quick' if arguments.quick else ''}`. Intervals are 95 %: exact ones of rates, "
        "bootstrap ones of medians. The rule by which an alarm counts is at the top of "
        "`src/surefoot/testing/match.py`.",
        "",
    ]
    svg = ""
    if arguments.set != "synthetic":
        done = evaluate(arguments.set, work, **options)
        if not done:
            raise UsageError(f"no case of the set {arguments.set!r} could be read")
        parts += [f"## Real runs: set {arguments.set}", ""]
        if arguments.out:
            parts += [f"![recall against false alarms]({arguments.out.stem}.svg)", ""]
        left_out = len(_set(arguments.set)) - len(done)
        if left_out > 0 and not arguments.quick:
            parts += [f"**{left_out} cases could not be read and are left out.**", ""]
        parts += stored_sections(done, survival(curves))
        svg = picture(rows_of(done), arguments.set)
    if corpus.present():
        logs = evaluate("corpus", work, **options)
        parts += ["## Labelled public logs", "", *corpus_sections(logs)]
    else:
        parts += ["## Labelled public logs", "", "Not scored: no folder of logs (`--corpus`).", ""]
    if curves:
        parts += ["## Synthetic curves", "", *synthetic_sections(curves)]
        if arguments.set == "synthetic":
            body = [
                [name, render.rate(value)]
                for name, value in survival(curves).items()
                if value.total and not math.isnan(value.value)
            ]
            parts += [
                "### A spike 300 records after a NaN, seen of those seen without it",
                "",
                *render.table(["detector", "survival"], body),
                "",
            ]
    parts += cost_sections() + settings()
    return "\n".join(parts), svg


if __name__ == "__main__":
    raise SystemExit(main())

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
import peers
import render
import runner
import sections
import synthetic

from surefoot.errors import UsageError
from surefoot.records import StepRecord

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


def command_line(arguments: argparse.Namespace) -> str:
    """What to type for the same report; folders of one's own are named by what they hold."""
    parts = [f"python benchmarks/spikebench/score.py --set {arguments.set}"]
    parts += ["--quick"] * arguments.quick + ["--no-synthetic"] * arguments.no_synthetic
    parts += [f'--only "{name}"' for name in arguments.only]
    parts += ["--peers PYTHON"] * bool(arguments.peers) + ["--corpus FOLDER"] * bool(
        arguments.corpus
    )
    return " ".join(parts)


def listed(arguments: argparse.Namespace, work: Path) -> list[str]:
    """What surefoot online missed, told falsely, or explained wrongly, case by case."""
    name = contestants.ONLINE
    done = evaluate(arguments.set, work, quick=arguments.quick, jobs=arguments.jobs, only=[name])
    rows = [row for row in sections.rows_of(done) if row.name == name]
    return [line for row in rows for line in render.case_lines(row)]


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
        f"`{command_line(arguments)}`. Intervals are 95 %: exact ones of rates, "
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
        parts += sections.stored_sections(done, sections.survival(curves))
        svg = sections.picture(sections.rows_of(done), arguments.set)
    if corpus.present():
        logs = evaluate("corpus", work, **options)
        parts += ["## Labelled public logs", "", *sections.corpus_sections(logs)]
    else:
        parts += ["## Labelled public logs", "", "Not scored: no folder of logs (`--corpus`).", ""]
    if curves:
        parts += ["## Synthetic curves", "", *sections.synthetic_sections(curves)]
        if arguments.set == "synthetic":
            body = [
                [name, render.rate(value)]
                for name, value in sections.survival(curves).items()
                if value.total and not math.isnan(value.value)
            ]
            parts += [
                "### A spike 300 records after a NaN, seen of those seen without it",
                "",
                *render.table(["detector", "survival"], body),
                "",
            ]
    parts += sections.cost_sections() + sections.settings()
    return "\n".join(parts), svg


if __name__ == "__main__":
    raise SystemExit(main())

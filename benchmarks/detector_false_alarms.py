"""How often does the loss detector cry wolf? Healthy synthetic runs of many kinds, counted.

    python benchmarks/detector_false_alarms.py            # about 3 million steps
    python benchmarks/detector_false_alarms.py --quick    # a tenth of it

Every kind is a full training curve from ln V down, with loss and gradient norm; whatever the
detector tells on it, under any code, is a false incident. The table goes to stdout and, with
``--out FILE``, to a file. Rates carry exact 95 % Poisson intervals; the last column is the speed of
the detector alone, generation excluded.
"""

import argparse
import platform
import time
from datetime import date
from pathlib import Path

import numpy as np

from surefoot.detect import LossDetector
from surefoot.testing.curves import KINDS, VOCABULARY, records
from surefoot.testing.intervals import poisson_interval


def measure(seed: int, quick: bool) -> tuple[list[str], float]:
    """The table's lines, and the overall rate per 10 000 steps."""
    lines = [
        "| healthy curves | steps | false incidents | per 10 000 steps | 95 % interval | µs/step |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    all_steps = all_incidents = 0
    all_time = 0.0
    for number, (kind, (make, steps, runs)) in enumerate(KINDS.items()):
        count, total, spent = 0, 0, 0.0
        for index in range(max(1, runs // 10) if quick else runs):
            run = records(make(steps, np.random.default_rng([seed, number, index])))
            detector = LossDetector(vocab_size=VOCABULARY)
            started = time.process_time()
            told = [finding for record in run for finding in detector.update(record).findings]
            spent += time.process_time() - started
            told += detector.finish()
            count += len({finding.evidence.get("incident", finding.code) for finding in told})
            total += len(run)
        lines.append(row(kind, total, count, spent))
        all_steps, all_incidents, all_time = (
            all_steps + total,
            all_incidents + count,
            all_time + spent,
        )
    lines.append(row("**all**", all_steps, all_incidents, all_time))
    return lines, 1e4 * all_incidents / all_steps


def row(kind: str, steps: int, count: int, spent: float) -> str:
    low, high = (1e4 * bound / steps for bound in poisson_interval(count))
    rate = 1e4 * count / steps
    micro = 1e6 * spent / steps
    return f"| {kind} | {steps} | {count} | {rate:.3f} | {low:.3f} to {high:.3f} | {micro:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    lines, rate = measure(arguments.seed, arguments.quick)
    text = "\n".join(
        [
            "# False alarms of the loss detector",
            "",
            f"{date.today()}, Python {platform.python_version()}, {platform.machine()}, "
            f"seed {arguments.seed}{', quick' if arguments.quick else ''}: "
            f"**{rate:.2f} false incidents per 10 000 healthy steps**.",
            "",
            *lines,
            "",
            "Command: `python benchmarks/detector_false_alarms.py "
            f"--seed {arguments.seed}{' --quick' if arguments.quick else ''}`. "
            "An incident counts once, whatever codes it was told under; "
            "a finding of family LOG counts too.",
            "",
        ]
    )
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

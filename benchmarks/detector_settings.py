"""Which threshold of the shift test? False alarms and recall of several, in one table.

    python benchmarks/detector_settings.py                    # some five minutes
    python benchmarks/detector_settings.py --thresholds 5.5

False alarms are counted on the healthy kinds that are hardest for it; the events lie on the same
falling curves, at noise of the given standard deviation. Late is the median of the records from the
event to the alarm; an event is missed without an alarm within 900 records.
"""

import argparse
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

import detector_false_alarms as healthy
import numpy as np

from surefoot.detect import LossDetector, shift
from surefoot.testing import curves

HARD = (
    "autocorrelated 0.5",
    "autocorrelated 0.9",
    "slow wander",
    "heavy-tailed loss, t4",
    "hard batches raise both",
)
WITHIN = 900
Event = Callable[[np.ndarray], np.ndarray]


def step(nats: float) -> Event:
    return lambda after: np.where(after >= 0, nats, 0.0)


def single(nats: float) -> Event:
    return lambda after: np.where(after == 0, nats, 0.0)


def climb(nats: float, records: int) -> Event:
    return lambda after: nats * np.clip(after / records, 0, 1)


EVENTS: dict[str, tuple[float, Event, int]] = {
    "one record +0.3, noise 0.03": (0.03, single(0.3), 3000),
    "one record +0.2, noise 0.03": (0.03, single(0.2), 3000),
    "step +0.06, noise 0.01": (0.01, step(0.06), 3000),
    "step +0.06, noise 0.03": (0.03, step(0.06), 3000),
    "step +4.5, noise 0.03": (0.03, step(4.5), 3000),
    "climb +4 in 800, noise 0.03": (0.03, climb(4, 800), 3000),
    "the same while it still falls": (0.03, climb(4, 800), 1200),
    "climb +0.4 in 800, noise 0.03": (0.03, climb(0.4, 800), 3000),
    "step +0.3 at record 240, noise 0.03": (0.03, step(0.3), 240),
}


def late(noise: float, event: Event, at: int, seed: int) -> int | None:
    """Records from the event to the alarm; None if it was missed."""
    rng = np.random.default_rng([7, seed])
    steps = at + 1000
    loss = curves.curve(steps, rng) + noise * rng.standard_normal(steps)
    loss += event(np.arange(1, steps + 1) - at)
    run = curves.records(curves.Healthy(loss, curves.gradient(steps, rng)))
    detector = LossDetector(vocab_size=curves.VOCABULARY)
    for record in run:
        for finding in detector.update(record).findings:
            if finding.code == "SPK000" and record.step >= at:
                return record.step - at if record.step - at <= WITHIN else None
    return None


def recall(noise: float, event: Event, at: int, runs: int) -> str:
    found = [x for seed in range(runs) if (x := late(noise, event, at, seed)) is not None]
    return f"{len(found)}/{runs}" + (f", {median(found):g} late" if found else "")


def false_alarms(runs: int) -> str:
    healthy.KINDS = {kind: (*healthy.KINDS[kind][:2], runs) for kind in HARD}
    lines, rate = healthy.measure(0, quick=False)
    interval = lines[-1].split("|")[5].strip()
    return f"{rate:.2f} ({interval})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thresholds", type=float, nargs="+", default=[4.5, 5.5, 7.0])
    parser.add_argument("--runs", type=int, default=10, help="of each event")
    parser.add_argument("--healthy", type=int, default=4, help="runs of each healthy kind")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    columns: list[list[str]] = []
    for threshold in arguments.thresholds:
        shift.THRESHOLD = threshold
        cells = [recall(*event, arguments.runs) for event in EVENTS.values()]
        columns.append([f"{threshold:g}", "---:", *cells, false_alarms(arguments.healthy)])
    names = ["event", "---", *EVENTS, "**false incidents per 10 000 steps, hard kinds**"]
    rows = [f"| {' | '.join(cells)} |" for cells in zip(names, *columns, strict=True)]
    text = "\n".join(
        [
            "# Threshold of the shift test",
            "",
            f"{date.today()}, Python {platform.python_version()}, {platform.machine()}. "
            "Found of all, and the median delay in records.",
            "",
            *rows,
            "",
            "Command: `python benchmarks/detector_settings.py --thresholds "
            f"{' '.join(f'{value:g}' for value in arguments.thresholds)} "
            f"--runs {arguments.runs} --healthy {arguments.healthy}`.",
            "",
        ]
    )
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Which thresholds? False alarms and recall of the loss detector, in one table.

    python benchmarks/detector_settings.py                    # some five minutes
    python benchmarks/detector_settings.py --thresholds 5.5
    python benchmarks/detector_settings.py --strictness 0.7 0.85 1 1.3

The first two vary the threshold of the shift test; the last multiplies all thresholds by a factor,
and measures the rate over all healthy kinds: the table of ``surefoot.detect.strictness``.

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

from surefoot.detect import LossDetector, loss, shift
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
    "step +0.06 at record 600, noise 0.03": (0.03, step(0.06), 600),
    "step +0.4 at record 400, noise 0.1": (0.1, step(0.4), 400),
    "one record +0.8 at 250, noise 0.1": (0.1, single(0.8), 250),
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


def false_alarms(runs: int, kinds: tuple[str, ...] = HARD) -> str:
    everything = healthy.KINDS
    healthy.KINDS = {kind: (*everything[kind][:2], runs) for kind in kinds}
    try:
        lines, rate = healthy.measure(0, quick=False)
    finally:
        healthy.KINDS = everything
    interval = lines[-1].split("|")[5].strip()
    return f"{rate:.2f} ({interval})"


def column(setting: float, by_strictness: bool, runs: int, healthy_runs: int) -> list[str]:
    """Recall and false alarms with one setting."""
    before = (shift.THRESHOLD, loss.strictness)
    if by_strictness:
        loss.strictness = lambda rate: setting
    else:
        shift.THRESHOLD = setting
    try:
        cells = [recall(*event, runs) for event in EVENTS.values()]
        kinds = tuple(healthy.KINDS) if by_strictness else HARD
        return [f"{setting:g}", "---:", *cells, false_alarms(healthy_runs, kinds)]
    finally:
        shift.THRESHOLD, loss.strictness = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thresholds", type=float, nargs="+", default=[4.5, 5.5, 7.0])
    parser.add_argument("--strictness", type=float, nargs="+", help="factors, in their place")
    parser.add_argument("--runs", type=int, default=10, help="of each event")
    parser.add_argument("--healthy", type=int, default=4, help="runs of each healthy kind")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    factors = arguments.strictness
    settings = factors or arguments.thresholds
    columns = [
        column(setting, bool(factors), arguments.runs, arguments.healthy) for setting in settings
    ]
    kinds = "all" if factors else "hard"
    names = ["event", "---", *EVENTS, f"**false incidents per 10 000 steps, {kinds} kinds**"]
    rows = [f"| {' | '.join(cells)} |" for cells in zip(names, *columns, strict=True)]
    text = "\n".join(
        [
            "# Factor on all thresholds" if factors else "# Threshold of the shift test",
            "",
            f"{date.today()}, Python {platform.python_version()}, {platform.machine()}. "
            "Found of all, and the median delay in records.",
            "",
            *rows,
            "",
            "Command: `python benchmarks/detector_settings.py "
            f"--{'strictness' if factors else 'thresholds'} "
            f"{' '.join(f'{value:g}' for value in settings)} "
            f"--runs {arguments.runs} --healthy {arguments.healthy}`.",
            "",
        ]
    )
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

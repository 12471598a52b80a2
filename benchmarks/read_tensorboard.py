"""How fast is an event file read, against TensorBoard's own EventAccumulator?

python benchmarks/read_tensorboard.py --points 1000000 --rounds 3      (quick: --points 50000)

Needs the package tensorboard beside surefoot. The file is written with TensorBoard's own writer;
both sides read it in turns, in one process, and must tell the same numbers.
"""

import argparse
import logging
import os
import platform
import random
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from surefoot.readers import read_run
from surefoot.records import Run

TAGS = {
    "train/loss": "loss",
    "train/grad_norm": "grad_norm",
    "train/learning_rate": "learning_rate",
    "train/tokens_per_second": "tokens_per_second",
}


def write(folder: Path, points: int) -> None:
    numbers = random.Random(1)
    writer = EventFileWriter(str(folder), max_queue_size=1000)
    for step in range(1, points // len(TAGS) + 1):
        for tag in TAGS:
            value = Summary.Value(tag=tag, simple_value=numbers.random() * 4)
            summary = Summary(value=[value])
            writer.add_event(Event(wall_time=1.75e9 + step, step=step, summary=summary))
    writer.close()


def theirs(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def timed(read, folder: Path) -> tuple[np.ndarray, EventAccumulator | Run]:
    """Seconds by the clock and of the processor, and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = read(folder)
    return np.array([time.perf_counter() - wall, time.process_time() - processor]), result


def spread(numbers: list[float], digits: int) -> str:
    least, most = min(numbers), max(numbers)
    return f"{median(numbers):.{digits}f} [{least:.{digits}f}, {most:.{digits}f}]"


def same(accumulator: EventAccumulator, run: Run) -> None:
    for tag, column in TAGS.items():
        told = accumulator.Scalars(tag)
        assert np.array_equal(run.signals["step"].to_numpy(), [one.step for one in told])
        assert np.array_equal(run.signals[column].to_numpy(), [one.value for one in told])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--points", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as made:
        small, folder = Path(made, "small"), Path(made, "large")
        write(small, 400)
        write(folder, chosen.points)
        size = sum(path.stat().st_size for path in folder.iterdir())
        same(theirs(small), read_run(small))  # what is loaded once is loaded here
        rows = []
        for _ in range(chosen.rounds):
            ours, run = timed(read_run, folder)
            slow, accumulator = timed(theirs, folder)
            same(accumulator, run)
            del run, accumulator
            rows.append((ours, slow))
    when = datetime.now(UTC).date()
    print(f"# Reading TensorBoard event files, {when}\n")
    print(
        f"Python {platform.python_version()}, {platform.machine()}, "
        f"tensorboard {version('tensorboard')}; {chosen.rounds} rounds in turn."
    )
    print(f"{chosen.points:,} points of {len(TAGS)} tags, {size / 1e6:.1f} MB.\n")
    print("Median of the rounds [least, most].\n")
    print("| | seconds | of the processor |")
    print("| --- | ---: | ---: |")
    for name, side in (("surefoot, read_run", 0), ("EventAccumulator, all scalars", 1)):
        wall, processor = ([row[side][n] for row in rows] for n in (0, 1))
        print(f"| {name} | {spread(wall, 2)} | {spread(processor, 2)} |")
    wall, processor = ([row[1][n] / row[0][n] for row in rows] for n in (0, 1))
    print(f"| **ratio**, asked ≥ 10 | {spread(wall, 1)} | {spread(processor, 1)} |")
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"\nLoad average at the end: {load} on {os.cpu_count()} processors.")
    print(
        f"\nCommand: `python benchmarks/read_tensorboard.py --points {chosen.points} "
        f"--rounds {chosen.rounds}`."
    )


if __name__ == "__main__":
    main()

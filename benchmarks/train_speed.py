"""What does surefoot's step cost against a bare PyTorch loop, and against transformers' Llama?

    python benchmarks/train_speed.py                     # both shapes: about half an hour
    python benchmarks/train_speed.py --shape 1m          # the shape of recipes/stdlib-1m.toml
    python benchmarks/train_speed.py --quick             # seconds: does it run?

Four things run in turn, in an order drawn anew for each round, a block of at least half a second
each: (a) a plain loop on the same model, without any signal; the same again, as the null pair; (b)
transformers' LlamaForCausalLM of the same shape in that loop; and surefoot's own step, with all
signals, its record, its detector and its journal. Steps at which the sampled signals are measured
have blocks of their own and weigh as they do in a run, one in ``sample_every``. Each round gives
one ratio; the table has their median with a 95 % bootstrap interval. Where the null pair's interval
is wider than the margin to be shown, the machine cannot show it: "not resolved here".

Peak memory is what torch's allocator holds at once, counted by its profiler from before the model
is made, in a process of its own for each side: unlike the resident set it is exact and the same
each time. The second table times each group of signals alone, at 27 million parameters.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import torch
from signal_costs import costs
from train_sides import SHAPES, SIDES, Plain, Surefoot, recipe_of

BLOCK = 0.5
MARGIN = 0.03


def timed(side: Plain | Surefoot, steps: int, sampled: bool) -> float:
    """Seconds a step."""
    gc.collect()
    start = time.perf_counter()
    for _ in range(steps):
        side.step(sampled)
    return (time.perf_counter() - start) / steps


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios with a 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: list[float]) -> "Ratio":
        """From one ratio a round."""
        values = np.array(ratios)
        draw = np.random.default_rng(0)
        medians = np.median(draw.choice(values, (10_000, len(values))), axis=1)
        low, high = np.quantile(medians, [0.025, 0.975])
        return cls(float(np.median(values)), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def verdict(ratio: Ratio, null: Ratio, target: float, rounds: int) -> str:
    if rounds < 30:
        return "too few rounds"
    if null.high - null.low > MARGIN:
        return "not resolved here"
    if ratio.low >= target:
        return "passed"
    return "failed" if ratio.high < target else "not resolved here"


def speed(shape: str, rounds: int, block: float) -> list[str]:
    """Rows of the first table."""
    recipe = recipe_of(shape)
    sides = {name: make(recipe) for name, make in SIDES.items()}
    blocks = {
        "plain": ("plain", False),
        "null": ("plain", False),
        "llama": ("llama", False),
        "surefoot": ("surefoot", False),
        "sampled": ("surefoot", True),
    }
    steps = {}
    for name, side in sides.items():
        timed(side, 2, sampled=False)
        timed(side, 1, sampled=True)
        steps[name] = max(1, -int(-block // timed(side, 2, sampled=False)))
    order = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in blocks}
    for number in range(rounds):
        for name in order.permutation(list(blocks)):
            side, sampled = blocks[name]
            times[name].append(timed(sides[side], steps[side], sampled))
        print(f"{shape}: round {number + 1} of {rounds}", file=sys.stderr, end="\r")
    every = recipe.signals.sample_every
    ours = [
        ((every - 1) * usual + sampled) / every
        for usual, sampled in zip(times["surefoot"], times["sampled"], strict=True)
    ]

    def ratio(other: list[float], mine: list[float]) -> Ratio:
        return Ratio.of([a / b for a, b in zip(other, mine, strict=True)])

    null = ratio(times["plain"], times["null"])
    a, b = ratio(times["plain"], ours), ratio(times["llama"], ours)
    a_peak, b_peak, our_peak = (peak_of(s, shape) for s in ("plain", "llama", "surefoot"))
    tokens = recipe.batch.global_size * recipe.architecture.sequence_length
    parameters = sum(p.numel() for p in sides["plain"].model.parameters())  # type: ignore[union-attr]
    memory = our_peak / a_peak
    return [
        f"### {shape}: {parameters / 1e6:.1f} M parameters, {tokens} tokens a step",
        "",
        "| compared | tokens/s of the other | tokens/s of surefoot | ratio | asked | verdict |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
        f"| null: (a) against (a) | {tokens / median(times['plain']):.0f} | | {null} | | |",
        f"| (a) plain loop | {tokens / median(times['plain']):.0f} | {tokens / median(ours):.0f} "
        f"| {a} | ≥ 0.97 | {verdict(a, null, 0.97, rounds)} |",
        f"| (b) transformers' Llama | {tokens / median(times['llama']):.0f} "
        f"| {tokens / median(ours):.0f} | {b} | ≥ 1.00 | {verdict(b, null, 1.0, rounds)} |",
        "",
        f"Blocks: {', '.join(f'{n} {s} steps' for n, s in steps.items())}; {rounds} rounds. "
        f"A sampled step takes {median(times['sampled']) / median(times['surefoot']):.2f} × a "
        "usual one.",
        "",
        f"Peak memory of tensors: plain {a_peak / 2**20:.1f} MiB, Llama {b_peak / 2**20:.1f} MiB, "
        f"surefoot {our_peak / 2**20:.1f} MiB: {memory:.3f} × (a), asked ≤ 1.05: "
        f"{'passed' if memory <= 1.05 else 'failed'}.",
        "",
    ]


def peak_of(side: str, shape: str) -> int:
    """Peak of what torch's allocator holds, bytes, in a fresh process."""
    command = [sys.executable, __file__, "--shape", shape, "--peak-of", side]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def print_peak(side: str, shape: str) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        measured = SIDES[side](recipe_of(shape))
        measured.step(sampled=False)
        measured.step(sampled=True)
        measured.step(sampled=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    print(max(e["args"]["Total Allocated"] for e in events if e.get("name") == "[memory]"))


def machine() -> str:
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return (
        f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads; torch "
        f"{torch.__version__}, Python {platform.python_version()}; load average {load}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=list(SHAPES), action="append")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="seconds; no verdict")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    parser.add_argument("--peak-of", choices=list(SIDES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.peak_of:
        print_peak(arguments.peak_of, arguments.shape[0])
        return
    shapes = arguments.shape or (["tiny"] if arguments.quick else ["1m", "27m"])
    rounds = 3 if arguments.quick else arguments.rounds
    lines = [f"# Training speed, {date.today()}", "", f"Before: {machine()}.", ""]
    for shape in shapes:
        lines += speed(shape, rounds, 0.02 if arguments.quick else BLOCK)
    lines += costs("tiny" if arguments.quick else "27m", 3 if arguments.quick else 25)
    lines += [f"After: {machine()}.", ""]
    text = "\n".join(lines)
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

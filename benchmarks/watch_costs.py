"""What does surefoot.watch add to a bare PyTorch loop, level by level?

    OMP_NUM_THREADS=1 python benchmarks/watch_costs.py           # about ten minutes
    python benchmarks/watch_costs.py --rounds 2 --shape tiny     # seconds: does it run?

One loop each (AdamW, clipping, a decoder): bare, bare again as the null pair, and watched at each
level with a run folder, the journal and the detector. They run in turn, in an order drawn anew for
each round, whole periods of ``sample_every`` steps at a time, so that sampled steps weigh as they
do in a run. A round gives one ratio of processor time to the bare loop; the table has their median
with a 95 % bootstrap interval. Processor time, so that other work on the machine counts less.
"""

import argparse
import gc
import os
import platform
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from train_sides import RECIPE, SHAPES, batch_of, decoder_of
from train_speed import Ratio

import surefoot
from surefoot.recipe import Recipe, load
from surefoot.watching.levels import LevelName

SMALL = (
    "architecture.width=96", "architecture.layers=4", "architecture.vocab_size=1024",
    "architecture.sequence_length=128", "batch.global_size=8",
)  # fmt: skip
LEVELS: tuple[LevelName, ...] = ("light", "standard", "full")


class Loop:
    """A loop of its own model, watched or not."""

    def __init__(self, recipe: Recipe, level: LevelName | None, folder: str) -> None:
        self.batch = batch_of(recipe)
        self.model = decoder_of(recipe)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.watch = None
        if level is not None:
            run = Path(folder, level)
            size = recipe.architecture.vocab_size
            self.watch = surefoot.watch(
                self.model, self.optimizer, run=run, level=level, vocab_size=size
            )

    def step(self) -> None:
        """Forward, backward, clip, update, watch."""
        inputs, targets = self.batch[:, :-1], self.batch[:, 1:]
        logits = self.model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        if self.watch is not None:
            self.watch.loss(loss)
            self.watch.logits(logits)
            self.watch.step(grad_norm=norm, tokens=targets.numel())
        self.optimizer.zero_grad(set_to_none=True)


def timed(loop: Loop, steps: int) -> float:
    """Processor seconds a step."""
    gc.collect()
    start = time.process_time()
    for _ in range(steps):
        loop.step()
    return (time.process_time() - start) / steps


def table(shape: str, rounds: int, steps: int) -> list[str]:
    recipe = load(RECIPE, list({**SHAPES, "small": SMALL}[shape]))[0].resolved()
    with tempfile.TemporaryDirectory() as folder:
        loops = {
            "bare": Loop(recipe, None, folder),
            "null": Loop(recipe, None, folder),
            **{level: Loop(recipe, level, folder) for level in LEVELS},
        }
        times: dict[str, list[float]] = {name: [] for name in loops}
        order = np.random.default_rng(1)
        for loop in loops.values():
            timed(loop, 2)
        for number in range(rounds):
            for name in order.permutation(list(loops)):
                times[name].append(timed(loops[name], steps))
            print(f"{shape}: round {number + 1} of {rounds}", file=sys.stderr, end="\r")
        for loop in loops.values():
            if loop.watch is not None:
                loop.watch.finish()
    parameters = sum(p.numel() for p in loops["bare"].model.parameters())
    rows = [
        f"### {shape}: {parameters / 1e6:.2f} M parameters, {loops['bare'].batch[:, 1:].numel()} "
        "tokens a step",
        "",
        "| loop | ms a step | over the bare loop |",
        "| --- | ---: | ---: |",
    ]
    for name in loops:
        ratio = Ratio.of([a / b for a, b in zip(times[name], times["bare"], strict=True)])
        rows.append(f"| {name} | {median(times[name]) * 1e3:.2f} | {ratio} |")
    return [*rows, "", f"{rounds} rounds of {steps} steps.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=[*SHAPES, "small"], action="append")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=20, help="a multiple of sample_every, 20")
    given = parser.parse_args()
    torch.manual_seed(0)
    print(f"# Cost of surefoot.watch, {date.today()}\n")
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} "
        f"thread(s), {os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}.\n"
    )
    for shape in given.shape or ["tiny", "small"]:
        print("\n".join(table(shape, given.rounds, given.steps)))


if __name__ == "__main__":
    main()

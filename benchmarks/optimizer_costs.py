"""What does a step of each optimizer, clipper and skip rule cost, against torch's foreach AdamW?

    python benchmarks/optimizer_costs.py                # the table; some minutes
    python benchmarks/optimizer_costs.py --quick        # seconds: does it run?

The tensors are those of a decoder of 12 layers, width 384, vocabulary 16384, untied: 34 M elements
in 135 tensors. Everything is timed in turn, round by round, and a ratio is the median over the
rounds of a time over that of torch's foreach AdamW in the same round: what else the machine does
hits both. Optimizers are stepped through guarded_step with a divisor, as in training.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from datetime import date
from statistics import median

import numpy as np
import torch
from torch import nn

from surefoot.model import Decoder
from surefoot.optim import (
    CLIPPERS,
    OPTIMIZERS,
    SpikeSkip,
    build_clipper,
    build_optimizer,
    clip_factor,
    guarded_step,
)
from surefoot.recipe import Architecture, Optimizer

FULL = {"layers": 12, "width": 384, "heads": 6, "vocab_size": 16384, "sequence_length": 64}
QUICK = {"layers": 2, "width": 64, "heads": 2, "vocab_size": 512, "sequence_length": 64}
BASE = "torch AdamW, foreach"
NO = torch.tensor(0.0)


def model_with_gradients(shape: dict[str, int]) -> Decoder:
    torch.manual_seed(0)
    model = Decoder(Architecture(**shape))
    for p in model.parameters():
        p.grad = torch.randn_like(p) * 1e-3
    return model


def optimizer_step(shape: dict[str, int], name: str) -> Callable[[], object]:
    model = model_with_gradients(shape)
    section = Optimizer(learning_rate=1e-3, name=name)
    optimizer = build_optimizer(model, section, roles=model.roles())
    for group in optimizer.param_groups:
        if "clip_after" in group:
            group["clip_after"] = 0  # SPAM clips nothing in its first steps
    # Not 1, which would spare the division; its inverse, so that gradients keep their size.
    divisors = [torch.tensor(1.25), torch.tensor(0.8)]

    def step() -> None:
        divisors.reverse()
        guarded_step(optimizer, found_inf=NO, grad_divisor=divisors[0])

    return step


def foreach_step(shape: dict[str, int]) -> Callable[[], object]:
    model = model_with_gradients(shape)
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True, weight_decay=0.1).step


def torch_muon_step(shape: dict[str, int]) -> Callable[[], object]:
    """The one of torch, on the matrices of the blocks alone."""
    model = model_with_gradients(shape)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and n.startswith("layers.")]
    return torch.optim.Muon(matrices, lr=1e-3, adjust_lr_fn="match_rms_adamw").step


def clipper_call(shape: dict[str, int], name: str) -> Callable[[], object]:
    model = model_with_gradients(shape)
    parameters = list(model.parameters())
    clipper = build_clipper(Optimizer(learning_rate=1e-3, clip=name, clip_norm=1.0), parameters)
    norms = [torch.tensor(2.0), torch.tensor(2.1)]

    def call() -> None:
        norms.reverse()
        clipper(norms[0])

    return call


def others(shape: dict[str, int]) -> dict[str, Callable[[], object]]:
    model = model_with_gradients(shape)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    skip, norm, loss = SpikeSkip(128, 6.0), torch.tensor(1.0), torch.tensor(3.0)
    return {
        "skip-step": lambda: skip.skip(loss, norm),
        "for scale: global norm of torch": lambda: nn.utils.get_total_norm(gradients),
        "for scale: the factor of a global clip": lambda: clip_factor(norm, 1.0),
    }


def newton_schulz_flops(shape: dict[str, int]) -> float:
    """Multiplications and additions of muon's matrix products in a step."""
    total = 0.0
    for name, p in model_with_gradients(shape).named_parameters():
        if p.ndim == 2 and name.startswith("layers."):
            r, c = sorted(p.shape)
            total += 5 * (2 * r * r * c + 2 * r**3 + 2 * r * r * c)
    return total


def measure(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()  # makes the state
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return times


def table(times: dict[str, list[float]]) -> list[str]:
    rng = np.random.default_rng(0)
    rows = ["| what | ms | over foreach AdamW |", "| --- | ---: | ---: |"]
    for name, found in times.items():
        ratios = np.array(found) / np.array(times[BASE])
        draws = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        rows.append(
            f"| {name} | {median(found) * 1e3:.1f} "
            f"| {np.median(ratios):.2f} [{low:.2f}, {high:.2f}] |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shape, rounds = (QUICK, 2) if arguments.quick else (FULL, arguments.rounds)
    load = os.getloadavg()[0]
    works = {BASE: foreach_step(shape)}
    works |= {name: optimizer_step(shape, name) for name in OPTIMIZERS}
    if hasattr(torch.optim, "Muon"):
        works["torch Muon, blocks alone"] = torch_muon_step(shape)
    works |= {f"clip: {name}": clipper_call(shape, name) for name in CLIPPERS}
    works |= others(shape)
    times = measure(works, rounds)
    model = model_with_gradients(shape)
    elements = sum(p.numel() for p in model.parameters())
    flops = newton_schulz_flops(shape)
    blocks = sum(p.numel() for n, p in model.named_parameters() if n.startswith("layers."))
    lines = [
        f"# Cost of optimizers, clippers and skipping, {date.today()}",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {arguments.threads} "
        f"thread(s), {os.cpu_count()} cores; load average {load:.1f} at the start, "
        f"{os.getloadavg()[0]:.1f} at the end. {elements / 1e6:.1f} M elements in "
        f"{len(list(model.parameters()))} tensors, float32.",
        "",
        *table(times),
        "",
        f"Medians over {rounds} rounds, each of which times every row once; in brackets the 95 % "
        "bootstrap interval of the median ratio. `adamw` is torch's fused kernel.",
        "",
        f"Muon multiplies matrices: {flops / 1e9:.0f} GFLOP a step here, five Newton-Schulz "
        "iterations on each matrix of the blocks, in bf16. That is the arithmetic of a forward and "
        f"backward pass over {flops / (6 * blocks):.0f} tokens through the same blocks, so a share "
        "of a training step that falls as its batch grows. On a CPU without bf16 products it "
        "takes several times as long.",
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""What does each group of signals cost, in milliseconds? A table of train_speed.py, or alone.

    OMP_NUM_THREADS=1 python benchmarks/signal_costs.py     # two minutes

Alone it prints a second table too: a whole training step at which the signals of Adam's state are
measured, over one at which they are not, step by step in turn, so that other work on the machine
meets both. "Over a run" is what is left of it at one sampled step in ``sample_every``.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import count
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn
from train_sides import Surefoot, recipe_of

from surefoot.model import loss_sums
from surefoot.model.attention import largest_logit
from surefoot.signals.distribution import UpdateSums


def clock(work: Callable[[], object], repeats: int, prepare: Callable[[], object] = int) -> float:
    """Median milliseconds of ``work``, each time after ``prepare``."""
    times = []
    for _ in range(repeats + 1):
        prepare()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times[1:]) * 1e3


@contextmanager
def without_distribution() -> Iterator[None]:
    """Leave out the sums of which update_bimodality and its like are made."""
    add, parts = UpdateSums.add, UpdateSums.parts
    UpdateSums.add = lambda self, update, limit, scratch: None  # type: ignore[method-assign]
    UpdateSums.parts = lambda self: []  # type: ignore[method-assign]
    try:
        yield
    finally:
        UpdateSums.add, UpdateSums.parts = add, parts  # type: ignore[method-assign]


def costs(shape: str, repeats: int) -> list[str]:
    """Rows of the table."""
    recipe = recipe_of(shape)
    side = Surefoot(recipe)
    model, meter, optimizer = side.train_step.model, side.meter, side.train_step.optimizer
    every, a = recipe.signals.sample_every, recipe.architecture
    inputs, targets = side.batch[:, :-1], side.batch[:, 1:]
    side.step()
    logits = model(inputs).detach().requires_grad_()
    sums = loss_sums(logits, targets)

    def set_gradients() -> None:
        for p in model.parameters():
            p.grad = torch.randn_like(p) * 1e-3

    set_gradients()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]

    def our_loss() -> None:
        found = loss_sums(logits, targets)
        (found.cross_entropy + 1e-4 * found.log_z_squared).backward()

    def torch_loss() -> None:
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()

    steps = (number for number in count(2 * every) if not meter.is_sampled(number))
    step = next(steps)

    def measure() -> None:
        nonlocal step
        step = next(steps)
        meter.norms(step)
        meter.after_update(step)

    def record() -> None:
        values = {"clip_factor": sums.tokens, "update_skipped": sums.tokens, "tokens": 1}
        side.take(meter.record(step, 0, values, sums=sums))

    queries = torch.randn(
        recipe.signals.attention_sequences, a.heads, a.sequence_length, a.head_size
    )
    keys = torch.randn(len(queries), a.key_value_heads, a.sequence_length, a.head_size)

    def attention() -> None:
        for _ in range(a.layers):
            largest_logit(queries, keys)

    rows = [
        ("loss, log_z, log_z_abs_max, z_loss and their gradient", clock(our_loss, repeats), 1),
        ("for scale: cross_entropy of torch, in the plain loop", clock(torch_loss, repeats), 0),
        ("grad_norm", clock(lambda: meter.norms(every + 1), repeats), 1),
        (
            "for scale: get_total_norm of torch, in the plain loop",
            clock(lambda: nn.utils.get_total_norm(gradients), repeats),
            0,
        ),
        ("param_norm", clock(lambda: meter.after_update(every + 1), repeats), 1),
        ("packing, record, journal, detector", clock(record, repeats, prepare=measure), 1),
    ]
    optimizer.step()

    def after_update(step: int) -> float:
        return clock(
            lambda: meter.after_update(step), repeats, prepare=lambda: meter.before_update(step)
        )

    usual, state = after_update(every + 1), after_update(every)
    with without_distribution():
        less = after_update(every)
    rows += [
        (
            "of Adam's state: update_rms, update_ratio, adam_rms, eps_share, grad_cosine, "
            "second_moment_lag",
            less - usual,
            every,
        ),
        ("and adam_update_rms, update_bimodality, update_large_share", state - less, every),
        ("attention_logit_max", clock(attention, repeats), every),
        ("for scale: fused AdamW", clock(optimizer.step, repeats), 0),
    ]
    parameters = sum(p.numel() for p in model.parameters())
    return [
        f"### Cost of each group of signals, {parameters / 1e6:.1f} M parameters",
        "",
        "Global and per parameter where there is both; medians.",
        "",
        "| group | ms when measured | every | ms a step |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {name} | {cost:.2f} | {period or ''} | {f'{cost / period:.2f}' if period else ''} |"
            for name, cost, period in rows
        ),
        "",
    ]


def sampled_steps(shape: str, pairs: int) -> str:
    """A row of the second table."""
    recipe = recipe_of(shape)
    side = Surefoot(recipe)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * pairs + 4):
        sampled = number % 2 == 1
        start = time.process_time()
        side.step(sampled)
        if number >= 4:
            times[sampled].append((time.process_time() - start) * 1e3)
    usual, more = median(times[False]), median(times[True])
    ratio = median(b / a for a, b in zip(times[False], times[True], strict=True))
    size = sum(p.numel() for p in side.train_step.model.parameters())
    tokens = side.batch[:, 1:].numel()
    return (
        f"| {size / 1e6:.2f} M | {tokens} | {usual:.2f} | {more:.2f} | {ratio:.3f} | "
        f"{(ratio - 1) / recipe.signals.sample_every:.2%} |"
    )


def main() -> None:
    torch.manual_seed(0)
    print(f"# Cost of the signals, {date.today()}\n")
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} "
        f"thread(s), {os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}.\n"
    )
    print("### A sampled step over a usual one\n")
    print("Processor time of surefoot's own step, attention logits, record and journal included.\n")
    print("| parameters | tokens | usual ms | sampled ms | ratio | over a run |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape, pairs in (("tiny", 100), ("1m", 12), ("27m", 5)):
        print(sampled_steps(shape, pairs))
    print()
    print("\n".join(costs("27m", 15)))


if __name__ == "__main__":
    main()

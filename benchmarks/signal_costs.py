"""What does each group of signals cost, in milliseconds? A table of train_speed.py, or alone.

python benchmarks/signal_costs.py
"""

import time
from collections.abc import Callable
from itertools import count
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn
from train_sides import Surefoot, recipe_of

from surefoot.detect import LossDetector
from surefoot.model import loss_sums
from surefoot.records import StepRecord


def clock(work: Callable[[], object], repeats: int) -> float:
    """Median milliseconds."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def costs(shape: str, repeats: int) -> list[str]:
    """Rows of the table."""
    recipe = recipe_of(shape)
    side = Surefoot(recipe)
    model, meter, adam = side.train_step.model, side.meter, side.meter._adam
    every = recipe.signals.sample_every
    side.step()
    inputs, targets = side.batch[:, :-1], side.batch[:, 1:]
    logits = model(inputs).detach().requires_grad_()
    sums = loss_sums(logits, targets)
    sums.cross_entropy.backward()
    for p in model.parameters():
        p.grad = torch.randn_like(p) * 1e-3
    side.train_step.optimizer.step()
    usual = every + 1

    def ours() -> None:
        found = loss_sums(logits, targets)
        (found.cross_entropy + 1e-4 * found.log_z_squared).backward()

    def theirs() -> None:
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()

    steps = count(usual)

    def record() -> None:
        step = next(steps)
        while meter.is_sampled(step):
            step = next(steps)
        meter.norms(step)
        meter._parts.append(("param_norm", meter._parts[0][1]))
        values = {"clip_factor": sums.tokens, "update_skipped": sums.tokens, "tokens": 1}
        found = meter.record(step, 0, values, sums=sums)
        if found is not None:
            side.writer.append(found)

    def attention() -> None:
        with torch.no_grad(), model.measure_attention_logits(recipe.signals.attention_sequences):
            model(inputs[:1])

    def unmeasured() -> None:
        with torch.no_grad():
            model(inputs[:1])

    norms = clock(lambda: meter.norms(usual), repeats)
    parameter_norms = clock(lambda: (meter.after_update(usual), meter._parts.clear()), repeats)
    rates, counters = adam.rates(), adam.counters()
    with torch.no_grad():
        state = clock(lambda: adam.measure(counters, rates), repeats)
    both = clock(record, repeats)
    maxima = clock(attention, repeats) - clock(unmeasured, repeats)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    total = clock(lambda: nn.utils.get_total_norm(gradients), repeats)
    adamw = clock(side.train_step.optimizer.step, repeats)
    detector = LossDetector(vocab_size=recipe.architecture.vocab_size)
    numbers = count(1)
    judging = clock(
        lambda: detector.update(
            StepRecord(step=next(numbers), values={"loss": 3.0, "grad_norm": 1.0})
        ),
        max(repeats, 100),
    )
    parameters = sum(p.numel() for p in model.parameters())
    rows = (
        ("loss, log_z, log_z_abs_max, z_loss and their gradient", clock(ours, repeats), 1),
        ("— cross_entropy of torch instead (plain loop)", clock(theirs, repeats), 0),
        ("grad_norm, global and per parameter", norms, 1),
        ("— get_total_norm of torch instead (plain loop)", total, 0),
        ("param_norm, global and per parameter", parameter_norms, 1),
        ("packing, record, journal", max(0.0, both - norms), 1),
        ("detector", judging, 1),
        ("update_rms, update_ratio, adam_rms, eps_share", state, every),
        ("attention_logit_max", max(0.0, maxima), every),
        ("for scale: fused AdamW", adamw, 0),
    )
    return [
        f"### Cost of each group of signals, {parameters / 1e6:.1f} M parameters",
        "",
        "| group | ms when measured | every | ms a step |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {name} | {cost:.2f} | {period or ''} | {f'{cost / period:.2f}' if period else ''} |"
            for name, cost, period in rows
        ),
        "",
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    print("\n".join(costs("27m", 15)))

"""Fields that follow from others: data-parallel ranks, steps from samples, the last learning rate.

What is derived is marked so, with the numbers it rests on; a stated field is never replaced.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from surefoot.readers.configs.formats import Statement
from surefoot.recipe.words import count

_MOST_STAGES = 1_000_000
Get = Callable[[str], Any]


def derive(stated: dict[str, Statement]) -> None:
    """Add to ``stated`` what follows from it."""
    for _ in range(3):  # a derived field may lead to another
        before = len(stated)
        for field, value, how in _follow(lambda name: _value(stated, name)):
            if field not in stated:
                stated[field] = Statement(field=field, value=value, key=how, kind="derived")
        if len(stated) == before:
            return


def _value(stated: dict[str, Statement], name: str) -> Any:
    return stated[name].value if name in stated else None


def _follow(get: Get) -> Iterator[tuple[str, Any, str]]:
    yield from _shape(get)
    yield from _ranks(get)
    yield from _batch(get)
    yield from _lengths(get)
    rate, least = get("optimizer.learning_rate"), get("schedule.min_learning_rate")
    factor = get("schedule.final_factor")
    if rate and least is not None:
        yield "schedule.final_factor", least / rate, f"{least:g} / {rate:g}"
    if rate and factor is not None:
        yield "schedule.min_learning_rate", rate * factor, f"{rate:g} x {factor:g}"


def _shape(get: Get) -> Iterator[tuple[str, Any, str]]:
    width, heads = get("architecture.width"), get("architecture.heads")
    if width and heads and width % heads == 0:
        yield "architecture.head_dim", width // heads, f"{width} channels / {heads} heads"


def _ranks(get: Get) -> Iterator[tuple[str, Any, str]]:
    nodes, each = get("parallelism.nodes"), get("parallelism.devices_per_node")
    if nodes and each:
        yield "parallelism.world_size", nodes * each, f"{nodes} nodes x {each}"
    world = get("parallelism.world_size")
    names = ("tensor", "pipeline", "context")
    sizes = {name: get(f"parallelism.{name}") for name in names}
    if world and all(size is None or size > 0 for size in sizes.values()):
        share = math.prod(size or 1 for size in sizes.values())
        if world % share == 0:
            parts = " x ".join(f"{size} {name}" for name, size in sizes.items() if size)
            how = f"{count(world, 'rank')} / ({parts})" if parts else count(world, "rank")
            yield "parallelism.data", world // share, how


def _batch(get: Get) -> Iterator[tuple[str, Any, str]]:
    micro, data = get("batch.micro_size"), get("parallelism.data")
    whole, times = get("batch.global_size"), get("batch.accumulation")
    if micro and data and times and min(micro, data, times) > 0:
        how = f"{micro} x {times} micro-batches x {data} data-parallel ranks"
        yield "batch.global_size", micro * times * data, how
    if micro and data and whole and whole % (micro * data) == 0:
        how = f"{whole} / ({micro} x {data} data-parallel ranks)"
        yield "batch.accumulation", whole // (micro * data), how
    length = get("architecture.sequence_length")
    if whole is None and length and (tokens := get("batch.tokens")) and tokens % length == 0:
        yield "batch.global_size", tokens // length, f"{tokens} tokens / {length}"


def _lengths(get: Get) -> Iterator[tuple[str, Any, str]]:
    whole, length = get("batch.global_size"), get("architecture.sequence_length")
    for name in ("", "warmup_", "decay_"):
        samples, tokens = get(f"schedule.{name}samples"), get(f"schedule.{name}tokens")
        if samples is None and tokens is not None and length:
            samples = tokens / length
        if samples is None or not whole or whole < 0:
            continue
        steps = _steps(samples, whole, get)
        if steps is not None:
            ramp = " after its ramp" if get("batch.ramp_from") else ""
            yield f"schedule.{name}steps", steps, f"{samples:g} samples in batches of {whole}{ramp}"
    fraction, decay = get("schedule.warmup_fraction"), get("schedule.decay_steps")
    if get("schedule.kind") == "wsd":
        decay = None  # the length of its last decay
    base = decay or get("schedule.steps")
    if fraction is not None and base and math.isfinite(fraction):
        steps = round(fraction * base)
        yield "schedule.warmup_steps", steps, f"{fraction:g} of {base} steps"


def _steps(samples: float, whole: int, get: Get) -> int | None:
    """Steps until so many samples are consumed, through the ramp of the batch if there is one."""
    ramp = (get("batch.ramp_from"), get("batch.ramp_increment"), get("batch.ramp_samples"))
    consumed: int = 0
    steps: int = 0
    if None not in ramp and all(ramp):
        first, increment, length = ramp
        stages = (whole - first) // increment
        if first <= 0 or increment <= 0 or not 0 < stages <= _MOST_STAGES:
            return None
        for stage in range(stages):
            size = first + stage * increment
            end = min(samples, length / stages * (stage + 1))
            needed = max(0, math.ceil((end - consumed) / size))
            steps, consumed = steps + needed, consumed + needed * size
            if consumed >= samples:
                return steps
    if not math.isfinite(samples):
        return None
    return int(steps + math.ceil((samples - consumed) / whole))

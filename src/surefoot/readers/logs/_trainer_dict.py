"""Dictionaries as Python prints them: ``{'loss': 2.3, 'grad_norm': nan, 'epoch': '0.1'}``."""

import re
from collections.abc import Mapping

from surefoot.readers.numbers import NUMBER, number, whole

LONGEST = 262_144
"""Characters of a line that may hold one: some name every expert of every layer."""

_ENTRY = re.compile(
    rf"'([^'\n:{{}}]{{1,200}})': (?:'([^'\n]{{0,80}})'|(?:np\.float\d\d\()?((?:{NUMBER})))"
)
_STEP_FIELDS = ("global_step/max_steps", "global_step", "step", "current_steps")
_FEW = ("loss", "grad_norm", "learning_rate", "lr", "reward", "perplexity", "ppl")


def entries(text: str, begin: int) -> tuple[dict[str, float], int | None, int | None] | None:
    """(numbers, step and total if told) of a dictionary; None if it is no record of training."""
    end = text.find("}", begin, begin + LONGEST)
    values: dict[str, float] = {}
    step = total = None
    for entry in _ENTRY.finditer(text, begin, end if end >= 0 else begin + LONGEST):
        key, told = entry[1], entry[2] if entry[2] is not None else entry[3].rstrip(",")
        if key in _STEP_FIELDS:
            done, _, of = told.partition("/")
            step, total = whole(done), whole(of) if of else total
            continue
        value = number(told)
        if value is not None:
            values.setdefault(key, value)
    if step is not None and step < 0:
        return None
    placed = step is not None or "epoch" in values or {"loss", "learning_rate"} <= values.keys()
    if not placed or not any(key in _FEW or key.startswith("eval_") for key in values):
        return None if not (placed and "train_runtime" in values) else (values, step, total)
    return values, step, total


def evaluates(values: Mapping[str, float]) -> bool:
    """Whether a record tells an evaluation."""
    return "loss" not in values and any(key.startswith("eval_") for key in values)

"""What records of JSON and rows of tables share: flat keys, numbers, the step, the kind."""

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from surefoot.readers.aliases import LOCALISED
from surefoot.readers.names import lookup, split_unit
from surefoot.readers.numbers import number, size, whole

STEP_KEYS = (
    "global_step", "train_global_step", "trainer_global_step", "global_step_max_steps",
    "global_steps", "global_iteration", "optimizer_step", "step", "current_steps", "current_step",
    "iteration", "iter", "num_updates", "train_num_updates", "train_step", "training_step",
    "trainer_step", "train_iteration", "train_steps", "completed_steps", "completed_step",
    "iterations", "step_num", "n_iter", "_step", "steps", "update", "updates", "batch", "it",
)  # fmt: skip
"""Under what the step is found, the surest first: what counts the optimizer's steps of the whole
run stands before what may count micro-batches or calls of a logger."""

TOTALS = frozenset(
    "total_steps max_steps num_training_steps train_iters total_iterations max_iters".split()
)
"""Keys of the number of steps that the run is to have."""

MOST_NESTED = 16
ENVELOPES = ("metrics", "data", "scalars", "values")
"""Keys whose object holds the record's metrics and says nothing more."""

_RANKS = {key: rank for rank, key in enumerate(STEP_KEYS)}
_OTHER = re.compile(r"[^0-9a-z]+")
_EVALUATION = re.compile(
    r"(?:^|[/_. ])(?:eval|evaluation|val|valid|validation|test|dev|predict|heldout)(?=[/_. ]|$)",
    re.IGNORECASE,
)
_OF_TRAINING = frozenset("loss grad_norm learning_rate loss_scale param_norm step_time".split())
_ROWS = frozenset(
    "loss validation_loss perplexity validation_perplexity grad_norm accuracy "
    "validation_accuracy learning_rate".split()
)


@lru_cache(1 << 16)
def stem_of(key: str) -> str:
    """A key as :data:`STEP_KEYS` and :data:`TOTALS` have it; ``_step`` keeps its mark."""
    text = LOCALISED.get(key.strip(), key.strip()).lower()
    stem = _OTHER.sub("_", text).strip("_")
    return "_step" if stem == "step" and text.startswith("_") else stem


def step_rank(key: str) -> int | None:
    """How sure it is that a key tells the step: 0 is the surest; None if it does not."""
    return _RANKS.get(stem_of(key))


def means(keys: Iterable[str]) -> set[str]:
    """Those of some keys that hold the mean loss of a whole run.

    The Trainer of transformers logs it once at the end, beside the run's duration; trackers put
    ``train/`` before both.
    """
    told = set(keys)
    ends = {key[: -len("train_runtime")] for key in told if key.endswith("train_runtime")}
    return {f"{before}train_loss" for before in ends} & told


@lru_cache(1 << 16)
def signal_of(key: str) -> str | None:
    """The common signal of a key; None if it is not a common one."""
    return lookup(split_unit(key)[0])


def is_metric(key: str) -> bool:
    """Whether a key tells what rows of training may be counted by."""
    return signal_of(key) in _ROWS


def is_evaluation(keys: Iterable[str]) -> bool:
    """Whether a record with these keys is a validation result: it tells nothing of training."""
    found = False
    for key in keys:
        if _of_evaluation(key):
            found = True
        elif signal_of(key) in _OF_TRAINING:
            return False
    return found


@lru_cache(1 << 16)
def _of_evaluation(key: str) -> bool:
    return _EVALUATION.search(key) is not None


def flatten(record: Mapping[str, object]) -> dict[str, object]:
    """The record with nested objects taken out, their keys joined by ``/``.

    Objects under :data:`ENVELOPES` and typed ones (histograms, images) add nothing to a key, or
    are left out; lists of a few numbers become ``key/0``, ``key/1``, ...
    """
    flat: dict[str, object] = {}
    _into(flat, record, "", 0)
    return flat


def _into(flat: dict[str, object], record: Mapping[str, object], prefix: str, depth: int) -> None:
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth >= MOST_NESTED or "_type" in value or key == "_wandb":
                continue
            inside = prefix if not depth and key in ENVELOPES else f"{name}/"
            _into(flat, value, inside, depth + 1)
        elif isinstance(value, list):
            if len(value) == 1:
                flat.setdefault(name, value[0])
            elif len(value) <= 8:
                for place, item in enumerate(value):
                    flat.setdefault(f"{name}/{place}", item)
        else:
            flat.setdefault(name, value)


def value_of(key: str, value: object) -> float | None:
    """The number that a field holds, also as text; None if it holds none.

    Truth values count only where the key is a known signal (``update_skipped``); sizes such as
    ``"4.9GiB"`` are in bytes.
    """
    if isinstance(value, bool):
        return float(value) if signal_of(key) is not None else None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if not isinstance(value, str) or len(value) > 40:
        return None
    found = number(value)
    if found is None and value[-1:] in ("B", "b") and value[:1].isdigit():
        return size(value)
    return found


def step_value(value: object) -> tuple[int | None, int | None]:
    """(step, steps of the run) of ``29000``, ``768.0``, ``"1,024"`` or ``"1/94"``."""
    if isinstance(value, bool):
        return None, None
    if isinstance(value, int):
        return (value, None) if abs(value) < 2**63 else (None, None)
    if isinstance(value, float):
        fits = math.isfinite(value) and value == int(value) and abs(value) < 2**63
        return (int(value), None) if fits else (None, None)
    if isinstance(value, str) and len(value) <= 40:
        at, slash, total = value.partition("/")
        return whole(at), whole(total) if slash else None
    return None, None

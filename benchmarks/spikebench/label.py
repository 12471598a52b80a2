"""The truth of a run: what left the spread of clean runs, when, and how much it cost.

A faulty run is compared with its twin, which is the same run without the fault: the same weights,
the same data, bit for bit up to the injection. What separates them later is the fault. How far two
runs may lie apart without any is taken from clean runs of the same setting with other seeds:

- ``single``: a value is off if it differs from the twin's by more than six robust standard
  deviations of clean runs about their own course, by more than the largest deviation seen nearby,
  and by more than the courses of two seeds differ;
- ``sustained``: a mean over 20 steps is off if it differs by more than six standard deviations of
  such a mean, and by more than any such mean of clean runs did.

Norms and other positive signals are compared as logarithms. The manifest step is the first one at
which any signal is off in either sense.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surefoot.records import StepRecord

Vector = npt.NDArray[np.float64]

LOGARITHMIC = (
    "log_z_abs_max", "z_loss", "grad_norm", "param_norm", "update_rms", "update_ratio", "adam_rms",
    "attention_logit_max", "learning_rate", "loss_scale",
)  # fmt: skip
LINEAR = ("loss", "log_z", "eps_share", "update_skipped", "grad_cosine", "consumed_samples")
FLOORS = {
    "loss": 0.02, "log_z": 0.05, "log_z_abs_max": 0.05, "z_loss": 0.1, "grad_norm": 0.1,
    "param_norm": 0.01, "update_rms": 0.05, "update_ratio": 0.05, "adam_rms": 0.1,
    "attention_logit_max": 0.1, "learning_rate": 0.18, "loss_scale": 1.0, "eps_share": 0.02,
    "update_skipped": 0.5, "grad_cosine": 0.1, "consumed_samples": 0.5,
}  # fmt: skip
"""The least difference that counts, in the units compared: below it nobody would care."""

OWN_COURSE = ("loss",)
"""What is compared with a run's own course where it has no twin."""

TENFOLD = {"attention_logit_max": float(np.log(10))}
"""What is off there only at ten times the clean run's: another rate alone moves it some."""

WINDOW, NEARBY, SUSTAINED, SIGMAS = 41, 50, 20, 6.0
CALM = 30
"""Steps without anything off after which a run counts as recovered."""


def series(records: Sequence[StepRecord], steps: int) -> dict[str, Vector]:
    """Signals by name (``name`` or ``name@place`` by number), as compared, indexed by step - 1."""
    found: dict[str, Vector] = {}

    def put(name: str, key: str, step: int, value: float) -> None:
        if key not in found:
            found[key] = np.full(steps, np.nan)
        with np.errstate(all="ignore"):
            # A norm of exactly 0 is far below any other, not infinitely far.
            number = np.log(max(value, 1e-30)) if name in LOGARITHMIC else value
        if not np.isfinite(value):
            number = np.inf
        found[key][step - 1] = number

    for record in records:
        if record.step > steps:
            break
        for name, value in record.values.items():
            if name in FLOORS:
                put(name, name, record.step, float(value))
        for name, array in record.places.items():
            for index, value in enumerate(array):
                put(name, f"{name}@{index}", record.step, float(value))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far clean runs of one setting lie apart, by signal; indexed by step - 1.

    Attributes:
        single: largest difference of a single value that means nothing.
        sustained: the same for a mean over 20 steps.
    """

    single: dict[str, Vector]
    sustained: dict[str, Vector]


def spread_of(runs: Sequence[dict[str, Vector]]) -> Spread:
    """The spread of clean runs of one setting with different seeds; two at least."""
    single, sustained = {}, {}
    warnings.simplefilter("ignore", RuntimeWarning)  # of windows that hold no number
    for name in runs[0]:
        floor = FLOORS[name.partition("@")[0]]
        values = np.array([run[name] for run in runs if name in run])
        values = np.where(np.isfinite(values), values, np.nan)
        courses = np.array([_running_median(row) for row in values])
        residuals = np.abs(values - courses)
        scale, largest = _nearby(residuals)
        seeds = np.abs(np.array([a - b for i, a in enumerate(courses) for b in courses[:i]]))
        apart = _local_max(np.nanmax(seeds, axis=0)) if len(seeds) else np.zeros(len(scale))
        means = np.array([_trailing_mean(row) for row in values])
        offset = np.abs(np.array([a - b for i, a in enumerate(means) for b in means[:i]]))
        most = _local_max(np.nanmax(offset, axis=0)) if len(offset) else np.zeros(len(scale))
        single[name] = np.nanmax([SIGMAS * scale, largest, apart, np.full(len(scale), floor)], 0)
        least = SIGMAS * scale / np.sqrt(SUSTAINED)
        sustained[name] = np.nanmax([least, most, np.full(len(scale), floor)], axis=0)
    return Spread(single=single, sustained=sustained)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What came of a fault; fields as in :class:`surefoot.testing.Truth`."""

    manifest_step: int | None
    manifest_signal: str | None
    loss_manifest_step: int | None
    harm_nats: float
    peak_nats: float
    recovered: bool | None
    recovered_step: int | None


def label(
    faulty: dict[str, Vector],
    twin: dict[str, Vector],
    spread: Spread,
    *,
    first: int,
    watched: Sequence[str] | None = None,
    own_course: bool = False,
) -> Label:
    """Compare a run with its twin from the injection on.

    Args:
        faulty: series of the run, its prefix included.
        twin: of its twin, at least as long.
        spread: of clean runs.
        first: injection step.
        watched: signals that count, all if None; where fault and twin differ in architecture.
        own_course: of the loss only the rise above its own lowest course is compared: for runs that
            never were the twin's, of which nothing else can be seen.
    """
    manifest: tuple[int, float, str] | None = None
    loss, compared = faulty["loss"], twin["loss"]
    if own_course:
        faulty = {**faulty, **{name: _rise(faulty[name]) for name in _own(faulty)}}
        twin = {**twin, **{name: _rise(twin[name]) for name in _own(twin)}}
        spread = _at_least(spread, TENFOLD)
    # Of a run's own lowest course single values say little: only a rise that lasts counts there.
    lasting = OWN_COURSE if own_course else ()
    loss_off = off_steps(
        faulty["loss"], twin["loss"], spread, "loss", first, single="loss" not in lasting
    )
    for name in faulty:
        if watched is not None and name.partition("@")[0] not in watched:
            continue
        if name not in twin or name not in spread.single:
            continue
        off = off_steps(faulty[name], twin[name], spread, name, first, single=name not in lasting)
        if off.any():
            step = int(np.argmax(off)) + 1
            excess = _excess(faulty[name], twin[name], spread.single[name], step)
            if manifest is None or (step, -excess) < (manifest[0], -manifest[1]):
                manifest = (step, excess, name)
    length = min(len(loss), len(compared))
    difference = loss[:length] - compared[:length]
    tail, since = difference[-50:], difference[first - 1 :]
    loss_step = int(np.argmax(loss_off)) + 1 if loss_off.any() else None
    recovered, recovered_step = None, None
    if loss_step is not None:
        last = int(np.flatnonzero(loss_off)[-1]) + 1
        recovered = last <= length - CALM
        recovered_step = last + 1 if recovered else None
    return Label(
        manifest_step=manifest[0] if manifest else None,
        manifest_signal=manifest[2] if manifest else None,
        loss_manifest_step=loss_step,
        harm_nats=float(tail.mean()) if np.isfinite(tail).all() else float("inf"),
        peak_nats=float(since.max()) if np.isfinite(since).all() else float("inf"),
        recovered=recovered,
        recovered_step=recovered_step,
    )


CALM_BEFORE, PAST, AFTER = 250, 40, 90
"""Steps of a run that are not looked at, steps of the past that make the course, and steps that a
case goes on after its loss has left it."""


def natural(run: dict[str, Vector], spread: Spread) -> tuple[Label, int] | None:
    """What a run did by itself: the first spike of its loss, and where that began.

    There is no twin: each value is compared with the median of the 40 steps before it, and with the
    largest spread that clean runs of the setting had at any step after the first 250.

    Returns:
        The label, and the step at which the case ends; None if the loss never left its course.
    """
    off, rise = {}, {}
    for name, row in run.items():
        if name in spread.single and name != "consumed_samples":
            rise[name] = row - _past_median(row)
            limit = np.nanmax(spread.single[name][CALM_BEFORE:])
            size = rise[name] if name == "loss" else np.abs(rise[name])
            with np.errstate(invalid="ignore"):
                off[name] = ~(size <= limit) & (np.arange(len(row)) >= CALM_BEFORE)
    if not off["loss"].any():
        return None
    at = int(np.argmax(off["loss"]))
    start = max(CALM_BEFORE, at - PAST)
    begun = {
        k: start + int(np.argmax(v[start : at + 1]))
        for k, v in off.items()
        if v[start : at + 1].any()
    }
    signal = min(begun, key=lambda k: (begun[k], k != "loss"))
    end = min(len(run["loss"]), at + AFTER)
    level = np.median(run["loss"][at - PAST : at])
    loss = run["loss"][at:end] - level
    high = np.flatnonzero(~(loss <= np.nanmax(spread.single["loss"][CALM_BEFORE:])))
    last = at + int(high[-1]) + 1
    recovered = last <= end - CALM
    return Label(
        manifest_step=begun[signal] + 1,
        manifest_signal=signal,
        loss_manifest_step=at + 1,
        harm_nats=float(loss[-50:].mean()),
        peak_nats=float(loss.max()),
        recovered=recovered,
        recovered_step=last + 1 if recovered else None,
    ), end


def off_steps(
    faulty: Vector, twin: Vector, spread: Spread, name: str, first: int, *, single: bool = True
) -> npt.NDArray[np.bool_]:
    """Where a signal is off, singly or sustained; indexed by step - 1."""
    length = min(len(faulty), len(twin), len(spread.single[name]))
    a, b = faulty[:length], twin[:length]
    with np.errstate(all="ignore"):
        difference = a - b
        off = (np.abs(difference) > spread.single[name][:length]) & single
        off |= np.isinf(a) & ~np.isinf(b)
        difference = np.where(np.isfinite(difference), difference, 0.0)
        mean = np.abs(_trailing_mean(difference))
        off |= mean > spread.sustained[name][:length]
    off[: first - 1] = False
    return off


def _excess(a: Vector, b: Vector, limit: Vector, step: int) -> float:
    value = abs(a[step - 1] - b[step - 1]) / limit[step - 1]
    return float(value) if np.isfinite(value) else float("inf")


def _running_median(row: Vector) -> Vector:
    half = WINDOW // 2
    padded = np.pad(row, half, mode="edge")
    with np.errstate(all="ignore"):
        view = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)
        return np.asarray(np.nanmedian(view, axis=1), np.float64)


def _past_median(row: Vector) -> Vector:
    view = np.lib.stride_tricks.sliding_window_view(row, PAST)
    with np.errstate(all="ignore"):
        medians = np.nanmedian(view, axis=1)[:-1]
    return np.concatenate([row[:PAST], medians])


def _nearby(residuals: Vector) -> tuple[Vector, Vector]:
    """Robust standard deviation and maximum of residuals within NEARBY steps, over all runs."""
    padded = np.pad(residuals, ((0, 0), (NEARBY, NEARBY)), mode="reflect")
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEARBY + 1, axis=1)
    with np.errstate(all="ignore"):
        return 1.4826 * np.nanmedian(view, axis=(0, 2)), np.nanmax(view, axis=(0, 2))


def _local_max(row: Vector) -> Vector:
    padded = np.pad(row, NEARBY, mode="edge")
    view = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEARBY + 1)
    return np.asarray(np.nanmax(view, axis=1), np.float64)


def _at_least(spread: Spread, floors: Mapping[str, float]) -> Spread:
    def raised(limits: Mapping[str, Vector]) -> dict[str, Vector]:
        return {k: np.maximum(v, floors.get(k.partition("@")[0], 0.0)) for k, v in limits.items()}

    return Spread(single=raised(spread.single), sustained=raised(spread.sustained))


def _own(run: dict[str, Vector]) -> list[str]:
    return [name for name in run if name.partition("@")[0] in OWN_COURSE]


def _rise(row: Vector) -> Vector:
    """How far each value is above the lowest mean over 20 steps before it (fewer in the first)."""
    clean = np.where(np.isfinite(row), row, 1e9)
    total = np.concatenate([[0.0], np.cumsum(clean)])
    end = np.arange(1, len(row) + 1)
    start = np.maximum(0, end - SUSTAINED)
    lowest = np.minimum.accumulate((total[end] - total[start]) / (end - start))
    before = np.concatenate([row[:1], lowest[:-1]])
    return np.asarray(np.maximum(row - before, 0.0), np.float64)


def _trailing_mean(row: Vector) -> Vector:
    """Mean of the last SUSTAINED values; of fewer at the beginning, where it says little."""
    clean = np.nan_to_num(row, nan=0.0, posinf=0.0, neginf=0.0)
    total = np.concatenate([[0.0], np.cumsum(clean)])
    end = np.arange(1, len(row) + 1)
    start = np.maximum(0, end - SUSTAINED)
    return np.asarray((total[end] - total[start]) / SUSTAINED, np.float64)

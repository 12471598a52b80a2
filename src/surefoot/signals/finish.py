"""From raw numbers on the host to a StepRecord: what needs no device is done here, in float64."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.records import CATALOGUE, StepRecord
from surefoot.signals.adam import Hyper
from surefoot.signals.cosine import cosines
from surefoot.signals.mailbox import Arrays
from surefoot.signals.parameters import Parameters
from surefoot.signals.sums import loss_values

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What the host knew when a step was sent off.

    Attributes:
        step: optimizer step, counted from 1.
        attempt: of the run.
        values: scalars that were on the host already.
        device_values: names of the vector ``values``.
        sums: names of the vector ``sums``.
        hyper: of the AdamSample, if the state was sampled.
        rates: learning rates of the groups; NaN for one that is in the vector ``rates``.
    """

    step: int
    attempt: int
    values: Mapping[str, float | int]
    device_values: tuple[str, ...]
    sums: tuple[str, ...]
    hyper: tuple[Hyper | None, ...] = ()
    rates: tuple[float, ...] = ()


def finish(arrays: Arrays, note: Note, parameters: Parameters) -> StepRecord:
    """The record of one step."""
    with np.errstate(all="ignore"):
        values: dict[str, float | int] = {}
        places: dict[str, Vector] = {}
        if "grad_norm" in arrays:
            places["grad_norm"] = parameters.root_sum_square(arrays["grad_norm"])
        if "grad_norm_total" in arrays:
            values["grad_norm"] = float(arrays["grad_norm_total"][0])
        if "param_norm" in arrays:
            places["param_norm"] = parameters.root_sum_square(arrays["param_norm"])
            values["param_norm"] = _norm(places["param_norm"])
        if note.hyper:
            _finish_adam(arrays, note, parameters, values, places)
        if "sums" in arrays:
            values |= loss_values(dict(zip(note.sums, arrays["sums"].tolist(), strict=True)))
        if "attention_logit_max" in arrays:
            places["attention_logit_max"] = arrays["attention_logit_max"]
            values["attention_logit_max"] = float(places["attention_logit_max"].max())
        measured = values.get("grad_norm")
        values |= note.values
        values |= zip(note.device_values, arrays.get("values", ()), strict=True)
        if measured is not None and "grad_norm" in (*note.values, *note.device_values):
            _unclip(measured, values, places)
        return StepRecord(
            step=note.step,
            attempt=note.attempt,
            values={
                name: _stored(name, number)
                for name, number in values.items()
                if math.isfinite(number) or not _is_counter(name, number)
            },
            places={name: place.astype(np.float32) for name, place in places.items()},
        )


def _finish_adam(
    arrays: Arrays,
    note: Note,
    parameters: Parameters,
    values: dict[str, float | int],
    places: dict[str, Vector],
) -> None:
    """Signals of Adam's state; the formulas are those of :mod:`surefoot.signals.adam`.

    A parameter counts once an update of it was made: where the very first steps were skipped there
    are moments, of zeros, but no bias correction.
    """
    read = np.array([index for index, h in enumerate(note.hyper) if h is not None])
    live = arrays["counters_after"][read] > 0
    index = read[live]
    if not len(index):
        return
    before, after = arrays["counters_before"][index], arrays["counters_after"][index]
    sizes = parameters.sizes[index]
    starts = np.cumsum([0, *(parameters.counts[i] for i in read[:-1])])
    hyper = [h for i in index if (h := note.hyper[i]) is not None]

    def table(name: str) -> Vector:
        return np.array([getattr(h, name) for h in hyper], dtype=np.float64)

    def total(name: str, power: int) -> Vector:
        found: Vector = np.add.reduceat(arrays[name] ** power, starts)[live]
        return found

    def spread(found: Vector, missing: float) -> Vector:
        full = np.full(len(parameters), missing)
        full[index] = found
        return full

    c1, c2 = 1 - table("beta1") ** after, 1 - table("beta2") ** after
    squares, below = total("adam_rms", 2) * c2, total("below_eps", 1)
    places["adam_rms"] = spread(np.sqrt(squares / sizes), np.nan)
    values["adam_rms"] = float(np.sqrt(squares.sum() / sizes.sum()))
    places["eps_share"] = spread(below / sizes, np.nan)
    values["eps_share"] = float(below.sum() / sizes.sum())
    if "cosine_dot" in arrays:
        # Undefined while there is no moment of before, or where it holds more than gradients.
        defined = (before > 0) & ~table("coupled").astype(bool) & (table("beta1") > 0)
        if defined.any():
            dot = total("cosine_dot", 1) * table("sign")
            moment, gradient = total("cosine_moment", 2), total("cosine_gradient", 2)
            each = np.where(defined, cosines(dot, moment, gradient), np.nan)
            places["grad_cosine"] = spread(each, np.nan)
            sums = [np.array(v[defined].sum()) for v in (dot, moment, gradient)]
            values["grad_cosine"] = float(cosines(*sums))
    if "update" not in arrays:
        return
    rates = np.array(note.rates, dtype=np.float64)
    rates = np.where(np.isnan(rates), arrays.get("rates", rates), rates)
    lr = rates[[h.group for h in hyper]]
    change = np.sqrt(total("update", 2)) * np.sqrt(c2) / c1
    change *= np.abs(lr / (1 - lr * table("decay")))
    # A step that was skipped on the device left the counter and the parameter as they were.
    change = spread(np.where(after > before, change, 0.0), 0.0)
    norms = places["param_norm"]
    places["update_rms"] = change / np.sqrt(parameters.sizes)
    places["update_ratio"] = _ratio(change, norms)
    values["update_rms"] = float(_norm(change) / np.sqrt(parameters.sizes.sum()))
    values["update_ratio"] = float(_ratio(_norm(change), _norm(norms)))


def _unclip(measured: float, values: dict[str, float | int], places: dict[str, Vector]) -> None:
    """Where the caller says what the norm was before it clipped, undo that in what was measured."""
    given = values["grad_norm"]
    factor = 1.0 if given == measured else float(np.divide(given, measured))
    if not math.isfinite(factor):
        return
    if factor != 1.0 and "grad_norm" in places:
        places["grad_norm"] = places["grad_norm"] * factor
    if factor > 0.0:
        values.setdefault("clip_factor", min(1.0, 1 / factor))


def _stored(name: str, number: float | int) -> float | int:
    """A scalar as run folders store it, so that who reads it now and who reads it there agree."""
    return round(number) if _is_counter(name, number) else float(np.float32(number))


def _is_counter(name: str, number: float | int) -> bool:
    return CATALOGUE[name].integer if name in CATALOGUE else isinstance(number, int)


def _norm(vector: Vector) -> float:
    return float(np.sqrt(np.square(vector).sum()))


def _ratio(change: Any, norm: Any) -> Any:
    """``change / norm``, 0 where nothing changed (a bias of zeros that is not trained yet)."""
    return np.where(change == 0, 0.0, np.divide(change, norm))

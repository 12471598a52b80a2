"""From raw numbers on the host to a StepRecord: what needs no device is done here, in float64."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surefoot.records import CATALOGUE, StepRecord
from surefoot.signals.adam_finish import finish_adam, norm_of
from surefoot.signals.adam_rule import Hyper
from surefoot.signals.mailbox import Arrays
from surefoot.signals.parameters import Parameters
from surefoot.signals.sums import is_maximum, loss_values

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
        layers: names of the vectors of further signals by layer.
    """

    step: int
    attempt: int
    values: Mapping[str, float | int]
    device_values: tuple[str, ...]
    sums: tuple[str, ...]
    hyper: tuple[Hyper | None, ...] = ()
    rates: tuple[float, ...] = ()
    layers: tuple[str, ...] = ()


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
            values["param_norm"] = norm_of(places["param_norm"])
        if note.hyper:
            found = finish_adam(arrays, note.hyper, note.rates, parameters, places["param_norm"])
            values |= found[0]
            places |= found[1]
        if "sums" in arrays:
            values |= loss_values(dict(zip(note.sums, arrays["sums"].tolist(), strict=True)))
        if "attention_logit_max" in arrays:
            places["attention_logit_max"] = arrays["attention_logit_max"]
            values["attention_logit_max"] = float(places["attention_logit_max"].max())
        for name in note.layers:
            if len(arrays[name]) > 1:
                places[name] = arrays[name]
            over = arrays[name].max() if is_maximum(name) else arrays[name].mean()
            values[name] = float(over)
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

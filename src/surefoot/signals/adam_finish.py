"""Signals of Adam's state from the sums over its chunks, on the host; see surefoot.signals.adam."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.signals.adam_rule import Hyper
from surefoot.signals.cosine import cosines
from surefoot.signals.distribution import Moments
from surefoot.signals.mailbox import Arrays
from surefoot.signals.parameters import Parameters

Vector = npt.NDArray[np.float64]
Found = tuple[dict[str, float], dict[str, Vector]]
"""Scalars over all parameters, and one value a parameter; both by signal."""


class _Live:
    """Sums of the parameters of which an update was made.

    Where the very first steps were skipped there are moments, of zeros, but no bias correction.

    Attributes:
        index: which parameters these are, (L,) of P.
        hyper: what their groups say, L.
        before, after: updates made to each, (L,).
        sizes: weights of each, (L,).
        c1, c2: 1 - beta1^t and 1 - beta2^t, (L,).
    """

    def __init__(
        self, arrays: Arrays, hyper: Sequence[Hyper | None], parameters: Parameters
    ) -> None:
        read = np.array([index for index, h in enumerate(hyper) if h is not None])
        self._arrays, self._live = arrays, arrays["counters_after"][read] > 0
        self._starts = np.cumsum([0, *(parameters.counts[i] for i in read[:-1])])
        self._chunks = np.concatenate([_chunk_sizes(parameters, int(i)) for i in read])
        self._all = len(parameters)
        self.index = read[self._live]
        self.hyper = [h for i in self.index if (h := hyper[i]) is not None]
        self.before, self.after = (arrays[f"counters_{x}"][self.index] for x in ("before", "after"))
        self.sizes = parameters.sizes[self.index]
        self.c1 = 1 - self.of_groups("beta1") ** self.after
        self.c2 = 1 - self.of_groups("beta2") ** self.after

    def of_groups(self, name: str) -> Vector:
        return np.array([getattr(h, name) for h in self.hyper], dtype=np.float64)

    def total(self, name: str, power: int = 1) -> Vector:
        """Sums over chunks (L,)."""
        found: Vector = np.add.reduceat(self._arrays[name] ** power, self._starts)[self._live]
        return found

    def moments(self) -> Moments:
        """Of m / (sqrt(v) + eps), by parameter (L,)."""
        second, third, center = (self._arrays[f"update_{x}"] for x in ("second", "third", "center"))
        pooled = Moments(
            count=self._chunks,
            mean=center,
            second=second,
            third=third,
            fourth=self._arrays["update_fourth"] ** 2,
        ).pooled(self._starts)
        return pooled.taken(self._live).scaled(np.sqrt(self.c2) / self.c1)

    def spread(self, found: Vector, missing: float = np.nan) -> Vector:
        """(L,) to (P,)."""
        full = np.full(self._all, missing)
        full[self.index] = found
        return full


def finish_adam(
    arrays: Arrays,
    hyper: Sequence[Hyper | None],
    rates: Sequence[float],
    parameters: Parameters,
    norms: Vector,
) -> Found:
    """Signals of the state; none while no update was made.

    Args:
        arrays: what the device found, chunk by chunk.
        hyper: of the AdamSample.
        rates: of the groups; NaN for one that is in ``arrays``.
        parameters: that were measured.
        norms: of the parameters, (P,).
    """
    live = _Live(arrays, hyper, parameters)
    if not len(live.index):
        return {}, {}
    values, places = _second_moment(live)
    parts = [_cosine(live)] if "cosine_dot" in arrays else []
    if "update_center" in arrays:
        parts.append(_distribution(live))
    if "update" in arrays:
        given = np.array(rates, dtype=np.float64)
        given = np.where(np.isnan(given), arrays.get("rates", given), given)
        parts.append(_size(live, given, parameters, norms))
    for more_values, more_places in parts:
        values |= more_values
        places |= more_places
    return values, places


def _second_moment(live: _Live) -> Found:
    """How v follows the gradient, and eps v.

    The first not where an update was left out: its gradient is not in v, and may still hold the
    loss scale or what a clip would have taken away. No gradient at all is one of 0.
    """
    squares, below = live.total("adam_rms", 2) * live.c2, live.total("below_eps")
    gradient, second = live.total("gradient", 2), live.total("second") / live.c2
    values = {"eps_share": float(below.sum() / live.sizes.sum())}
    places = {"eps_share": live.spread(below / live.sizes)}
    made = (live.after != live.before) | (gradient == 0)
    lag = ratio(np.sqrt(gradient), np.sqrt(second))
    places["adam_rms"] = live.spread(np.where(made, np.sqrt(squares / live.sizes), np.nan))
    places["second_moment_lag"] = live.spread(np.where(made, lag, np.nan))
    if not made.any():
        return values, places
    squares, sizes, gradient, second = (v[made] for v in (squares, live.sizes, gradient, second))
    values["adam_rms"] = float(np.sqrt(squares.sum() / sizes.sum()))
    values["second_moment_lag"] = float(ratio(np.sqrt(gradient.sum()), np.sqrt(second.sum())))
    return values, places


def _cosine(live: _Live) -> Found:
    """Undefined while there is no moment of before, or where it holds more than gradients."""
    beta1, coupled = live.of_groups("beta1"), live.of_groups("coupled").astype(bool)
    # A counter of 1 after an update: moments were reset, the one of before is zero.
    defined = (live.before > 0) & (live.after > 1) & ~coupled & (beta1 > 0)
    if not defined.any():
        return {}, {}
    dot = live.total("cosine_dot") * live.of_groups("sign")
    moment, gradient = live.total("cosine_moment", 2), live.total("gradient", 2)
    each = np.where(defined, cosines(dot, moment, gradient), np.nan)
    sums = [np.array(v[defined].sum()) for v in (dot, moment, gradient)]
    return {"grad_cosine": float(cosines(*sums))}, {"grad_cosine": live.spread(each)}


def _distribution(live: _Live) -> Found:
    """Of m / (sqrt(v) + eps)."""
    moments = live.moments()
    whole = moments.pooled(np.zeros(1, dtype=np.intp))
    rms, all_rms = moments.rms(), float(whole.rms()[0])
    # A share counts no NaN: where there is one, it is not known.
    large = np.where(np.isnan(moments.second), np.nan, live.total("update_large"))
    places = {
        "adam_update_rms": live.spread(rms),
        "update_bimodality": live.spread(moments.bimodality()),
        "update_large_share": live.spread(large / live.sizes),
    }
    values = {
        "adam_update_rms": all_rms,
        "update_bimodality": float(whole.bimodality()[0]),
        "update_large_share": float(large.sum() / live.sizes.sum()),
    }
    return values, places


def _size(live: _Live, rates: Vector, parameters: Parameters, norms: Vector) -> Found:
    """Of the change of the parameters."""
    lr = rates[[h.group for h in live.hyper]]
    change = np.sqrt(live.total("update", 2)) * np.sqrt(live.c2) / live.c1
    change *= np.abs(lr / (1 - lr * live.of_groups("decay")))
    # A step that was skipped on the device left the counter and the parameter as they were.
    change = live.spread(np.where(live.after != live.before, change, 0.0), 0.0)
    places = {
        "update_rms": change / np.sqrt(parameters.sizes),
        "update_ratio": ratio(change, norms),
    }
    values = {
        "update_rms": float(norm_of(change) / np.sqrt(parameters.sizes.sum())),
        "update_ratio": float(ratio(norm_of(change), norm_of(norms))),
    }
    return values, places


def _chunk_sizes(parameters: Parameters, index: int) -> Vector:
    """Weights in each chunk of a parameter."""
    sizes = np.full(parameters.counts[index], float(parameters.chunk))
    sizes[-1] = parameters.sizes[index] - sizes[:-1].sum()
    return sizes


def norm_of(vector: Vector) -> float:
    """L2 norm."""
    return float(np.sqrt(np.square(vector).sum()))


def ratio(above: Any, below: Any) -> Any:
    """``above / below``, 0 where there is nothing above (a bias of zeros, not trained yet)."""
    return np.where(above == 0, 0.0, np.divide(above, below))

"""How each signal is looked at: on which scale, how quiet it can be, what moves it.

A signal is watched on the scale on which its healthy noise is even: norms, RMS values and largest
logits vary by factors, hence their logarithm; signed quantities as they are. ``floor`` is the noise
below which no course is believed to run, ``prior`` the noise of a signal of which nothing is known
yet, both on that scale: 0.02 is two per cent of a norm.
"""

import math
from dataclasses import dataclass

from surefoot.records import signal_of, split_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How a signal is watched.

    Attributes:
        log: on a logarithmic scale; a value that is not positive is then as good as absent.
        floor: least noise, on that scale.
        prior: noise until 16 values are known.
        per_rate: divided by the learning rate first: Adam's update is proportional to it.
        alarms: whether it may be an outlier by itself; if not it is followed for its facts alone.
        tells_zero: whether an exact zero, never seen before, is a fault.
        moved_by: planned changes that may move it; see :mod:`surefoot.detect.announced`.
    """

    log: bool = True
    floor: float = 0.02
    prior: float = 0.3
    per_rate: bool = False
    alarms: bool = True
    tells_zero: bool = False
    moved_by: frozenset[str] = frozenset()


TINY = 1e-30
"""A norm or a largest value that is no larger is 0 for all that can be said of it."""

RATE, BATCH, LENGTH, DATA = "rate", "batch", "length", "data"

# A larger batch averages the gradient's noise away and with it what Adam makes of the gradient; of
# longer sequences and of other text every activation may differ; a rate moves all that trains.
_ALL = frozenset((RATE, BATCH, LENGTH, DATA))
# Largest values over the batch grow with its size; the parameters do not know of it.
_WEIGHTS = frozenset((RATE,))

KINDS: dict[str, Kind] = {
    "grad_norm": Kind(floor=0.04, prior=0.4, tells_zero=True, moved_by=_ALL),
    # Changes by less than the rate a step: a jump of two per cent is no update.
    "param_norm": Kind(floor=0.002, prior=0.03, moved_by=_WEIGHTS),
    # Momentum makes of one loud batch ten records that are raised by a few per cent.
    "update_rms": Kind(floor=0.04, per_rate=True, moved_by=_ALL),
    "update_ratio": Kind(floor=0.04, per_rate=True, moved_by=_ALL),
    "adam_rms": Kind(floor=0.02, moved_by=_ALL),
    "eps_share": Kind(log=False, floor=0.02, prior=0.1, moved_by=_ALL),
    "attention_logit_max": Kind(floor=0.04, moved_by=_ALL),
    "log_z": Kind(log=False, floor=0.03, prior=0.5, moved_by=_ALL),
    "log_z_abs_max": Kind(floor=0.02, prior=0.2, moved_by=_ALL),
    "z_loss": Kind(floor=0.03, prior=0.5, moved_by=_ALL),
    # A function of grad_norm, pinned at 1 for long stretches: it tells nothing of its own.
    "clip_factor": Kind(log=False, floor=0.1, prior=0.3, alarms=False, moved_by=_ALL),
    "grad_cosine": Kind(log=False, floor=0.05, prior=0.2, moved_by=_ALL),
    "load_balancing_loss": Kind(floor=0.03, moved_by=_ALL),
    "router_z_loss": Kind(floor=0.03, prior=0.5, moved_by=_ALL),
    "router_logit_max": Kind(floor=0.04, moved_by=_ALL),
}

NOT_FOLLOWED = frozenset(
    (
        "second_moment_lag",
        "adam_update_rms",
        "update_bimodality",
        "update_large_share",
        "router_entropy",
        "expert_load_max",
        "tokens_dropped",
    )
)
"""Signals of the catalogue that have no kind on purpose: recorded and drawn, never a reason to cry.

Those of Adam tell what ``adam_rms``, ``eps_share``, ``grad_cosine`` and ``update_rms`` tell
already, and at a small tensor nobody knows what is normal: a bias of 16 weights is two-sided by
chance. Each would also raise the thresholds of all others, for they share one rate of false alarms.
A router's entropy, load and drops are bounded, and move for long at the start of a healthy run.
"""

_SCALE_WORDS = frozenset(
    ("norm", "norms", "rms", "std", "logit", "logits", "activation", "activations", "gradnorm")
)
_UNKNOWN = Kind(floor=0.03, alarms=False, moved_by=_ALL)


def kind_of(name: str) -> Kind | None:
    """How ``name`` is watched, ``grad_norm`` or ``grad_norm@layers.0``; None if it is not.

    The loss has a detector of its own; wall-clock, memory, counters and what the schedule sets are
    no symptoms. A name that is not catalogued but speaks of a norm, an RMS or logits is followed
    without ever being an outlier by itself: what is normal for it is not known.
    """
    signal, _ = split_name(name)
    kind = KINDS.get(signal)
    if kind is not None or signal_of(signal) is not None:
        return kind
    words = signal.lower().replace("/", "_").replace(".", "_").replace("-", "_").split("_")
    return _UNKNOWN if _SCALE_WORDS.intersection(words) else None


def scaled(kind: Kind, value: object, log_rate: float) -> float:
    """``value`` on its kind's scale; NaN where there is none, infinite where it is.

    Args:
        kind: of the signal.
        value: a number; anything else is as good as absent.
        log_rate: logarithm of the learning rate; NaN if there is none, 0 to leave it out.
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    if not kind.log:
        return number
    if not number > TINY:
        return math.nan
    number = math.log(number)
    return number - log_rate if kind.per_rate else number


def natural(kind: Kind, value: float, log_rate: float) -> float:
    """The signal's own unit again: inverse of :func:`scaled`."""
    if not kind.log:
        return value
    if kind.per_rate and math.isfinite(log_rate):
        value += log_rate
    return math.exp(min(value, 700.0))

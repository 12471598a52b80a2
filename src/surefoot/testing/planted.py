"""Synthetic curves with a planted fault and its truth: what a detector must see, without a run.

::

    import numpy as np
    from surefoot.testing.planted import FAULTS, plant

    case = plant("step +0.06, noise 0.01", np.random.default_rng(0))
    case.truth.injection_step, case.truth.recovered
    for record in case.records(): ...

A fault lies on a healthy falling curve of :mod:`surefoot.testing.curves`. Only what is drawn is
known to be there: no cause can be read off such a curve.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from surefoot.records import StepRecord
from surefoot.testing.curves import VOCABULARY, Array, Healthy, curve, gradient
from surefoot.testing.truth import Truth

AFTER = 1000
"""Records from the fault to the end of the curve."""

Shape = Callable[[Array], Array]
"""Records since the fault began, shape (steps,), negative before it, to what is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault to draw on a curve.

    Attributes:
        group: ``spike``, ``shift``, ``creep``, ``divergence`` or ``non-finite``.
        at: record at which it begins.
        noise: of the curve, nats.
        loss: nats added to the loss.
        grad: factor on the gradient norm; None leaves it alone.
        recovered: whether the loss comes back; None if it never leaves.
        nan: records at which loss and gradient norm are NaN, relative to ``at``.
    """

    group: str
    at: int = 3000
    noise: float = 0.03
    loss: Shape | None = None
    grad: Shape | None = None
    recovered: bool | None = False
    nan: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One synthetic case: a truth and its records.

    Attributes:
        truth: what was drawn; the manifest step is the one at which it begins.
        columns: signals by name, each of shape (steps,); NaN is a value that was recorded as NaN.
        vocab_size: of the pretended model.
        places: none.
    """

    truth: Truth
    columns: dict[str, Array]
    vocab_size: int = VOCABULARY
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def records(self) -> Iterator[StepRecord]:
        """Every record, from step 1."""
        names = list(self.columns)
        rows = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        for step, row in enumerate(rows, start=1):
            yield StepRecord(step=step, values=dict(zip(names, row, strict=True)))


def once(nats: float) -> Shape:
    """A single record."""
    return lambda after: np.where(after == 0, nats, 0.0)


def decaying(nats: float, records: float = 12.0) -> Shape:
    """A spike that falls back exponentially."""
    return lambda after: np.where(after >= 0, nats * np.exp(-np.maximum(after, 0) / records), 0.0)


def lasting(nats: float) -> Shape:
    """A step to a new level."""
    return lambda after: np.where(after >= 0, nats, 0.0)


def climbing(nats: float, records: int) -> Shape:
    """A straight climb to a new level."""
    return lambda after: nats * np.clip(after / records, 0.0, 1.0)


def pulse(factor: float, width: int = 4) -> Shape:
    """A factor for some records from the fault on; 1 elsewhere."""
    return lambda after: np.where((after >= 0) & (after < width), factor, 1.0)


FAULTS: dict[str, Fault] = {
    "spike +0.6": Fault(group="spike", loss=decaying(0.6), recovered=True),
    "spike +1": Fault(group="spike", loss=decaying(1.0), grad=pulse(5.0), recovered=True),
    "spike +4": Fault(group="spike", loss=decaying(4.0), recovered=True),
    "spike +1 at record 40": Fault(group="spike", at=40, loss=decaying(1.0), recovered=True),
    "one record +0.3": Fault(group="spike", loss=once(0.3), recovered=True),
    "step +0.06, noise 0.01": Fault(group="shift", noise=0.01, loss=lasting(0.06)),
    "step +0.06, noise 0.03": Fault(group="shift", loss=lasting(0.06)),
    "step +0.3": Fault(group="shift", loss=lasting(0.3)),
    "step +4.5": Fault(group="divergence", loss=lasting(4.5)),
    "climb +0.4 in 800": Fault(group="creep", loss=climbing(0.4, 800)),
    "climb +4 in 800": Fault(group="divergence", loss=climbing(4.0, 800)),
    "climb +4 in 800, early": Fault(group="divergence", at=1200, loss=climbing(4.0, 800)),
    "NaN for good": Fault(group="non-finite", nan=(0, AFTER)),
    "one NaN": Fault(group="non-finite", nan=(0, 1), recovered=True),
}
"""Faults by name; ``at`` and every length are in records."""

SURVIVAL = Fault(group="survival", loss=decaying(4.0), grad=pulse(20.0), recovered=True)
"""A spike that every rule of the kind should see: is it still seen 300 records after a NaN?"""
NAN_BEFORE = 300


def plant(kind: str, rng: np.random.Generator, *, seed: int = 0) -> Planted:
    """A curve with the fault ``kind`` of :data:`FAULTS`.

    Raises:
        ValueError: if there is no such kind.
    """
    if kind not in FAULTS:
        raise ValueError(f"no synthetic fault {kind!r}; known: {', '.join(FAULTS)}")
    return _planted(kind, FAULTS[kind], rng, seed)


def survival(rng: np.random.Generator, *, nan: bool, seed: int = 0) -> Planted:
    """The curve of :data:`SURVIVAL`, with a NaN of every signal 300 records before, or without.

    It holds ``update_rms``, too, for rules that watch that; the same ``rng`` gives the same curve.
    """
    case = _planted("spike after a NaN" if nan else "the same spike", SURVIVAL, rng, seed)
    size = case.columns["grad_norm"]
    case.columns["update_rms"] = 1e-3 * np.sqrt(size / np.median(size))
    if nan:
        for column in case.columns.values():
            column[SURVIVAL.at - NAN_BEFORE - 1] = np.nan
    return case


def _planted(kind: str, fault: Fault, rng: np.random.Generator, seed: int) -> Planted:
    steps = fault.at - 1 + AFTER
    loss = curve(steps, rng) + fault.noise * rng.standard_normal(steps)
    run = Healthy(loss, gradient(steps, rng))
    after = np.arange(1, steps + 1, dtype=float) - fault.at
    if fault.loss is not None:
        run.loss = np.minimum(run.loss + fault.loss(after), 2 * math.log(VOCABULARY))
    if fault.grad is not None:
        run.grad = run.grad * fault.grad(after)
    if fault.nan is not None:
        first, last = fault.nan
        run.loss[(after >= first) & (after < last)] = np.nan
        run.grad[(after >= first) & (after < last)] = np.nan
    truth = Truth(
        case=f"{kind} #{seed}",
        set="synthetic",
        kind=kind,
        group=fault.group,
        cause="",
        seed=seed,
        point=fault.group in ("spike", "shift", "non-finite"),
        injection_step=fault.at,
        last_injection_step=fault.at if fault.recovered else steps,
        manifest_step=fault.at,
        manifest_signal="loss",
        loss_manifest_step=fault.at,
        recovered=fault.recovered,
        steps=steps,
    )
    return Planted(truth=truth, columns={"loss": run.loss, "grad_norm": run.grad})

"""Actions: plain values that a trainer's executor, or a person, carries out."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipUpdate:
    """Leave parameters, moments and step counter of step ``step`` untouched."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """Go back to the checkpoint of ``to_step``; never feed the raw sample ranges again."""

    to_step: int
    skip_samples: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleLR:
    """Multiply the learning rate of ``group`` (None: all) for ``steps`` steps (None: for good)."""

    factor: float
    group: str | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClip:
    """Clip by this global norm for ``steps`` steps (None: for good)."""

    norm: float
    steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBetas:
    """Change Adam's moment decay rates."""

    beta1: float
    beta2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEps:
    """Change Adam's eps."""

    eps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMoments:
    """Zero Adam's moments **and** its step counter, then warm up over ``rewarm_steps`` steps.

    With the old counter the bias correction is 1 and the first updates are 3.2 times too large at
    betas (0.9, 0.999).
    """

    rewarm_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Stop at the last confirmed checkpoint and write a post-mortem."""

    reason: str
    last_good_step: int | None = None


Action: TypeAlias = (
    SkipUpdate | Rewind | ScaleLR | SetClip | SetBetas | SetEps | ResetMoments | Halt
)

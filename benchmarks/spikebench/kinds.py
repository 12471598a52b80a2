"""What a kind of fault or look-alike is, and how one is registered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiny import Change, Setting

EVERY = 25
"""Steps between checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a kind may know when it plans a fault.

    Attributes:
        step: of the injection.
        setting: of the clean run.
        draw: a number in [0, 1) for each name, from the seed alone.
        weights: weights of the clean run after a number of steps (a checkpoint's).
    """

    step: int
    setting: Setting
    draw: Callable[[str], float]
    weights: Callable[[int], Mapping[str, Any]]

    def pick(self, name: str, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[int(self.draw(name) * len(options))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done to a run.

    Attributes:
        changes: faults or planned changes.
        setting: another setting than the clean one, from step 1 on; None = the same.
        last: last step at which the fault acts from outside; None = to the end.
    """

    changes: tuple[Change, ...] = ()
    setting: Setting | None = None
    last: int | None = None


Make = Callable[[Context, Any], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault or look-alike.

    Attributes:
        name: of the kind.
        group: kinds that are scored together.
        cause: right answer.
        make: plans it, from the context and the strength's settings.
        strengths: settings by strength.
        accepted: other right answers.
        point: whether it begins at one step.
        held_out: nobody tunes to it.
        from_start: it is in the setting: injection at step 1, nothing shared with the twin.
        healthy: a look-alike.
        families: settings that it is planted in, by a word in their name; empty = any.
        watched: signals that may be manifest, where the twin is of another architecture.
        natural: nothing is planted: the run does it by itself, and is left out where it does not.
        tail: steps after the injection.
        each: cases of each strength.
    """

    name: str
    group: str
    cause: str
    make: Make
    strengths: Mapping[str, Any]
    accepted: tuple[str, ...] = ()
    point: bool = True
    held_out: bool = False
    from_start: bool = False
    healthy: bool = False
    families: tuple[str, ...] = ()
    watched: tuple[str, ...] | None = None
    natural: bool = False
    tail: int = 170
    each: int = 2


def kind(kinds: dict[str, Kind], **settings: Any) -> Callable[[Make], Make]:
    """Register the decorated plan as a kind in ``kinds``."""

    def add(make: Make) -> Make:
        made = Kind(make=make, **settings)
        assert made.name not in kinds, made.name
        kinds[made.name] = made
        return make

    return add

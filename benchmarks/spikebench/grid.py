"""Which runs make up a set: settings, and which kind is planted in which of them."""

import hashlib
from dataclasses import dataclass

import look_alikes
import natural
import planted_events
import planted_settings
from kinds import EVERY, Context, Kind, Plan
from tiny import Setting

__all__ = ["EVERY", "KINDS", "Cell", "Context", "Kind", "Plan", "cells", "drawn", "settings"]

KINDS = {
    **planted_settings.KINDS,
    **planted_events.KINDS,
    **look_alikes.KINDS,
    **natural.KINDS,
}
"""All kinds by name. Their order, and the number of cases of each, decide which settings and seeds
a case gets: new ones go to the end."""


def settings(shapes: str) -> list[Setting]:
    """The clean settings of a set; ``test`` has other shapes and other optimizers than ``dev``."""
    if shapes == "dev":
        return [
            Setting(name="cosine", batch=16),
            Setting(name="deep-wsd", layers=4, batch=12, rate=4e-3, beta2=0.99, schedule="wsd"),
            Setting(name="noqk", qk_norm=False, batch=16, rate=4e-3, schedule="constant",
                    weight_decay=0.0, warmup=40),
            Setting(name="tied-slow", tied=True, batch=16, rate=4e-3, beta2=0.999, clip=0.0,
                    schedule="constant", warmup=80),
            Setting(name="fp16-cosine", precision="fp16", batch=16, rate=5e-3),
            Setting(name="quiet-slow", batch=16, rate=5e-3, beta2=0.999, clip=0.0, repeat=48,
                    schedule="constant", steps=500),
            Setting(name="copies-noqk", qk_norm=False, batch=16, rate=6e-3, schedule="constant",
                    weight_decay=0.0, copies=True),
        ]  # fmt: skip
    return [
        Setting(name="cosine", layers=3, width=32, heads=4, length=40, batch=16, rate=7e-3,
                beta2=0.97),
        Setting(name="deep-wsd", layers=5, batch=12, rate=3e-3, beta2=0.95, schedule="wsd",
                weight_decay=0.05),
        Setting(name="noqk", qk_norm=False, layers=3, width=48, heads=4, batch=12, rate=3e-3,
                schedule="constant", weight_decay=0.0, warmup=60, norm="layernorm",
                activation="gelu"),
        Setting(name="slow", width=48, heads=2, batch=16, rate=3e-3, beta2=0.995, clip=0.0,
                schedule="constant", eps=1e-10),
        Setting(name="fp16-cosine", precision="fp16", layers=2, width=48, heads=4, batch=12,
                rate=4e-3),
        Setting(name="quiet-slow", layers=3, batch=16, rate=4e-3, beta2=0.999, clip=0.0, repeat=40,
                schedule="constant", steps=500),
        Setting(name="copies-noqk", qk_norm=False, layers=3, heads=4, length=40, batch=12,
                rate=5e-3, schedule="cosine", weight_decay=0.0, copies=True),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One case to be made.

    Attributes:
        name: unique in the set.
        setting: of the clean run.
        seed: of weights and data.
        kind: None for a clean run.
        strength: of the kind.
        step: of the injection.
    """

    name: str
    setting: Setting
    seed: int
    kind: Kind | None = None
    strength: str = ""
    step: int = 1

    def draw(self, word: str) -> float:
        """A number in [0, 1) of this cell."""
        return drawn(self.name, word)


def drawn(*words: object) -> float:
    """A number in [0, 1) that depends on the words alone."""
    digest = hashlib.sha256(":".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


SEEDS = 3
"""Clean runs of each setting."""


def cells(shapes: str, seed: int, *, held_out: bool | None, quick: bool = False) -> list[Cell]:
    """The cells of a set, the clean runs of a setting before what is planted in them.

    Args:
        shapes: ``dev`` or ``test``, see :func:`settings`.
        seed: of the set; every seed gives other weights, data orders and injection steps.
        held_out: only held-out kinds, only others, or (None) all.
        quick: one seed's worth for a trial.
    """
    found: list[Cell] = []
    offset = {"dev": 0, "test": 50}.get(shapes, 0) + 100 * seed
    chosen = settings(shapes)
    queues: dict[str, list[Cell]] = {s.name: [] for s in chosen}
    for setting in chosen:
        for index in range(SEEDS):
            name = f"clean-{setting.name}-{offset + index}"
            queues[setting.name].append(Cell(name=name, setting=setting, seed=offset + index))
    turn = 0
    for made in KINDS.values():
        if held_out is not None and made.held_out != held_out and not made.healthy:
            continue
        usual = [s for s in chosen if s.repeat is None and not s.copies]
        named = [s for s in chosen if any(word in s.name for word in made.families)]
        able = named if made.families else usual
        for strength in made.strengths:
            for number in range(1 if quick else made.each):
                setting = able[turn % len(able)]
                own = offset + (turn // len(able) + number) % SEEDS
                turn += 1
                name = "-".join(
                    filter(None, [made.name, strength, setting.name, f"{own}{'abcdef'[number]}"])
                )
                step = 1
                if not (made.from_start and not made.healthy):
                    low, high = (220, 400) if setting.steps >= 650 else (280, 400)
                    step = low + int(drawn(seed, name, "step") * (high - low))
                queues[setting.name].append(
                    Cell(
                        name=name,
                        setting=setting,
                        seed=own,
                        kind=made,
                        strength=strength,
                        step=step,
                    )
                )
    for setting in chosen:
        found += queues[setting.name]
    return found

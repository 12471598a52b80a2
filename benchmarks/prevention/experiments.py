"""The cells of every experiment, in the order in which they are made: one seed of everything first.

What is varied stands here and nowhere else; a table lists what is done of it.
"""

from collections.abc import Iterator
from typing import Any

from cell import Cell

Settings = dict[str, Any]


def shape(layers: int, width: int, heads: int) -> Settings:
    """The decoder's size."""
    return {
        "architecture.layers": layers, "architecture.width": width, "architecture.heads": heads,
    }  # fmt: skip


VANILLA: Settings = {"init.method": "vanilla"}
SCALED: Settings = VANILLA | {"architecture.embedding_scale": "sqrt_width"}
STARTS: dict[str, Settings] = {
    "vanilla": VANILLA,
    "scaled embed": SCALED,
    "embed LN": VANILLA | {"architecture.embedding_norm": True},
    "embed detach": VANILLA | {"architecture.embedding_gradient": 0.1},
    "megatron 1.0": {"init.method": "megatron", "init.embedding_std": 1.0},
    "WeSaR": {"init.method": "wesar"},
}
"""Rows of the first experiment."""
START_RATES = (3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
LOWER_RATES = (3e-4, 1e-3)
"""For WeSaR alone: its matrices are stored with a standard deviation of 0.006, which one update of
Adam at a rate of 3e-3 changes by half."""


def start_rates(name: str) -> tuple[float, ...]:
    """The rates that a row of the first experiment is tried at."""
    return (*LOWER_RATES, *START_RATES) if name == "WeSaR" else START_RATES


def starts(seed: int, *, quick: bool) -> Iterator[Cell]:
    """Initialisation against learning rate (Takase et al. 2023, 2312.16903)."""
    for rate in (3e-2,) if quick else (*LOWER_RATES, *START_RATES):
        for name, settings in STARTS.items():
            if rate not in start_rates(name) or (quick and name not in ("vanilla", "scaled embed")):
                continue
            yield Cell(
                experiment="starts", variant=name, rate=rate, seed=seed, batch=8,
                steps=60 if quick else 400, warmup=5 if quick else 20,
                settings=shape(8, 64 if quick else 128, 4) | settings,
            )  # fmt: skip


def lengths(seed: int, *, quick: bool) -> Iterator[Cell]:
    """Sequence length at fixed tokens, as section 5 of the same paper."""
    for length in (64, 256) if quick else (64, 256, 1024):
        for rate in (3e-2,) if quick else (1e-2, 3e-2):
            for name in ("vanilla", "scaled embed"):
                yield Cell(
                    experiment="lengths", variant=name, rate=rate, seed=seed, length=length,
                    batch=1024 // length, steps=30 if quick else 300, warmup=3 if quick else 15,
                    settings=shape(8, 64, 4) | STARTS[name],
                )  # fmt: skip


BETAS = (0.9, 0.95, 0.99, 0.999)
EPSILONS = (1e-15, 1e-8, 1e-6, 1e-5)
HEART: Settings = shape(2, 32, 2) | {
    "architecture.norm": "rmsnorm", "architecture.activation": "swiglu",
    "architecture.qk_norm": True, "loss.z_loss_weight": 1e-4, "schedule.kind": "constant",
}  # fmt: skip
"""A small model on text that it comes to know by heart: gradients shrink, and v follows."""


def adam(seed: int, *, quick: bool) -> Iterator[Cell]:
    """beta2 and eps of Adam without clipping."""
    for rate in (1.5e-2,) if quick else (6.5e-3, 1.5e-2):
        for beta2 in (0.95, 0.999) if quick else BETAS:
            for eps in (1e-8,) if quick else EPSILONS:
                yield Cell(
                    experiment="adam", variant=f"beta2 {beta2:g}, eps {eps:g}", rate=rate,
                    seed=seed, steps=300 if quick else 1600, warmup=60, batch=16, length=32,
                    repeat=48, sample_every=1,
                    settings=HEART | {"optimizer.beta2": beta2, "optimizer.eps": eps,
                                      "optimizer.clip": "none"},
                )  # fmt: skip


REMEDIES: dict[str, tuple[Settings, bool]] = {
    "none": ({}, False),
    "QK-norm": ({"architecture.qk_norm": True}, False),
    "z-loss": ({"loss.z_loss_weight": 1e-4}, False),
    "warm-up": ({}, True),
    "scaled embed": (SCALED, False),
    "QK-norm, z-loss, warm-up": (
        {"architecture.qk_norm": True, "loss.z_loss_weight": 1e-4}, True,
    ),
    "all four": (
        SCALED | {"architecture.qk_norm": True, "loss.z_loss_weight": 1e-4}, True,
    ),
}  # fmt: skip
"""Rows of the third experiment: settings, and whether a fifth of the run is warm-up."""
SENSITIVITY_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SENSITIVITY_WIDTHS = (32, 64)


def sensitivity(seed: int, *, quick: bool) -> Iterator[Cell]:
    """Learning-rate sensitivity (Wortsman et al. 2023, 2309.14322), and attention logits."""
    for width in (32,) if quick else SENSITIVITY_WIDTHS:
        for rate in (1e-2, 1e-1) if quick else SENSITIVITY_RATES:
            for name, (settings, warm) in REMEDIES.items():
                if quick and name not in ("none", "QK-norm"):
                    continue
                steps = 60 if quick else 300
                yield Cell(
                    experiment="sensitivity", variant=f"{name} (d={width})", rate=rate, seed=seed,
                    steps=steps, warmup=steps // 5 if warm else 3, batch=8,
                    settings=shape(4, width, width // 16) | VANILLA | settings,
                )  # fmt: skip


def remedies(seed: int, *, quick: bool) -> Iterator[Cell]:
    """Clipping and skipping on the same two spiky set-ups."""
    spiky: Settings = {"optimizer.beta2": 0.999, "schedule.kind": "constant"}
    setups: dict[str, tuple[Settings, dict[str, Any]]] = {
        "bad batches": (
            shape(4, 64, 4) | VANILLA | spiky, {"bad_every": 50, "rate": 1e-2, "batch": 8},
        ),
        "by heart": (HEART | spiky, {"repeat": 48, "rate": 1.5e-2, "length": 32}),
    }  # fmt: skip
    for setup, (settings, rest) in setups.items():
        for name, remedy in CLIPS.items():
            if quick and (setup == "by heart" or name not in ("none", "global clip 1")):
                continue
            yield Cell(
                experiment="remedies", variant=f"{setup}: {name}", seed=seed, warmup=60,
                steps=110 if quick else 600 if setup == "bad batches" else 1600,
                settings=settings | remedy, **rest,
            )  # fmt: skip


CLIPS: dict[str, Settings] = {
    "none": {"optimizer.clip": "none"},
    "global clip 1": {"optimizer.clip": "norm", "optimizer.clip_norm": 1.0},
    "global clip 0.1": {"optimizer.clip": "norm", "optimizer.clip_norm": 0.1},
    "ZClip": {"optimizer.clip": "zclip"},
    "AdaGC": {"optimizer.clip": "adagc"},
    "AGC": {"optimizer.clip": "agc"},
    "AutoClip": {"optimizer.clip": "autoclip"},
    "SPAM": {"optimizer.clip": "none", "optimizer.name": "spam"},
    "StableAdamW": {"optimizer.clip": "none", "optimizer.name": "stable-adamw"},
    "LaProp": {"optimizer.clip": "none", "optimizer.name": "laprop"},
    "skip-step": {"optimizer.clip": "none", "optimizer.skip_spikes": True},
    "beta2 0.95": {"optimizer.clip": "none", "optimizer.beta2": 0.95},
}
"""Rows of the fourth experiment."""

EXPERIMENTS = {
    "starts": starts,
    "sensitivity": sensitivity,
    "remedies": remedies,
    "adam": adam,
    "lengths": lengths,
}
SEEDS = (1, 2, 3)


def cells(names: tuple[str, ...], *, quick: bool = False) -> list[Cell]:
    """All cells of the experiments: the first seed of every one before the second of any."""
    seeds = SEEDS[:1] if quick else SEEDS
    return [
        cell for seed in seeds for name in names for cell in EXPERIMENTS[name](seed, quick=quick)
    ]

"""INI001 to INI003: the two conditions of Spike No More, and the growth of the gradient."""

from collections.abc import Iterator, Mapping
from math import isfinite, sqrt

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.making import SPIKE_NO_MORE, finding, shown
from surefoot.records import Finding

GROWTH = 3.0
"""Growth of the gradient that is told of: the geometric mean of 1.2, at which Scaled Embed trained
through, and 7.2, at which the vanilla start spiked (Takase et al. 2023, 2312.16903)."""
WORTH = sqrt(GROWTH**2 - 1)
"""How far what the sub-layers add may exceed the shortcut: over linear sub-layers the gradient
grows by sqrt(1 + added²/shortcut²), which is GROWTH there."""
LARGE_SHORTCUT = 0.5
"""Standard deviation of a shortcut that is "close to 1"; Scaled Embed has 0.63."""


def conditions(profile: InitProfile) -> Iterator[Finding]:
    """INI001 and INI002: which of the two conditions is not met where the gradient does grow."""
    shortcut, added = profile.layers[0].stream_rms, profile.added_rms
    growth = profile.gradient_growth
    if profile.placement != "pre" or not isfinite(added) or not growth >= GROWTH:
        return
    numbers = {"sigma_x": shortcut, "added_rms": added, "gradient_growth": growth}
    bounds = _largest_bounds(profile)
    if added > WORTH:
        at_one = sqrt(1 + added**2)
        yield finding(
            "INI001",
            profile,
            f"the {2 * len(profile.layers)} sub-layers add {shown(added)} (RMS) to the residual "
            "stream: even beside embeddings of standard deviation 1 the gradient would grow about "
            f"{shown(at_one)} times toward the first layer",
            evidence={**numbers, "growth_at_unit_shortcut": at_one, **bounds},
            actions=(
                "divide the attention and feed-forward output matrices by sqrt(2 layers): "
                "init.depth_scaled_outputs = true",
                'use a smaller standard deviation: init.std = "small" is sqrt(2/(5 d))',
            ),
            references=(SPIKE_NO_MORE,),
        )
    if shortcut < LARGE_SHORTCUT and shortcut * WORTH < added:
        yield finding(
            "INI002",
            profile,
            "the shortcut that enters the first layer has a standard deviation of "
            f"{shown(shortcut)} where near 1 is wanted, and the sub-layers add {shown(added)}"
            f"{_in_words(bounds)}",
            evidence={**numbers, **bounds},
            actions=(
                "start the embedding at a standard deviation near 1: init.method = "
                '"spike-no-more", or architecture.embedding_scale = "sqrt_width"',
                "or put a norm behind the embedding: architecture.embedding_norm = true",
            ),
            references=(SPIKE_NO_MORE,),
        )


def growth(profile: InitProfile) -> Iterator[Finding]:
    """INI003; a remark where norms stand elsewhere: what failed with it in public was pre-norm."""
    growth = profile.gradient_growth
    if growth >= GROWTH:
        yield finding(
            "INI003",
            profile,
            f"the gradient of the residual stream is {shown(growth)} times as large before layer "
            f"{profile.lowest} as behind the last ({_steepest(profile)})",
            evidence={
                "gradient_growth": growth,
                "first": profile.layers[profile.lowest].stream_gradient,
                "last": profile.stream_gradient,
                "growth_exponents": dict(profile.growth_exponents()),
            },
            actions=(
                "enlarge the embedding or make the sub-layers smaller, as INI001 and INI002 say",
                "or expect the largest stable learning rate to be lower, and warm up longer",
            ),
            references=(SPIKE_NO_MORE,),
            remark=profile.placement != "pre",
        )


def _largest_bounds(profile: InitProfile) -> dict[str, float | int]:
    """The largest of each upper bound, and where."""
    found: dict[str, float | int] = {}
    for name in ("attention_bound", "feed_forward_bound"):
        known = [
            (getattr(x, name), x.layer) for x in profile.layers if getattr(x, name) is not None
        ]
        if known:
            found[name], found[f"{name}_layer"] = max(known)
    return found


def _in_words(bounds: Mapping[str, float | int]) -> str:
    names = {"attention_bound": "the attention", "feed_forward_bound": "the feed-forward block"}
    parts = [
        f"{shown(bounds[name])} times over {what} of layer {bounds[f'{name}_layer']}"
        for name, what in names.items()
        if name in bounds
    ]
    return f": the gradient may grow up to {' and '.join(parts)}" if parts else ""


def _steepest(profile: InitProfile) -> str:
    """Over which layer it grows most."""
    above = [*(x.stream_gradient for x in profile.layers[1:]), profile.stream_gradient]
    steps = [
        (x.stream_gradient / higher if higher else 0.0, x.layer)
        for x, higher in zip(profile.layers, above, strict=True)
    ]
    most, layer = max(steps[profile.lowest :])
    return f"{shown(most)} times over layer {layer}"

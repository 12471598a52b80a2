"""INI001 to INI003: the two conditions of Spike No More, and the growth of the gradient."""

from collections.abc import Iterator, Mapping
from math import isfinite, sqrt

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.making import SPIKE_NO_MORE, by_kind, finding, shown
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
            actions=by_kind(
                profile,
                recipe=(
                    "divide the attention and feed-forward output matrices by sqrt(2 layers): "
                    "init.depth_scaled_outputs = true",
                    'use a smaller standard deviation: init.std = "small" is sqrt(2/(5 d))',
                ),
                config=(
                    "in your trainer: draw the matrices that write into the stream (o_proj, "
                    "down_proj or c_proj) with a standard deviation divided by "
                    f"sqrt(2 layers) = {sqrt(2 * len(profile.layers)):.3g}",
                    "or lower initializer_range: sqrt(2/(5 hidden_size)) = "
                    f"{sqrt(2 / (5 * profile.sizes.width)):.2g} is usual",
                ),
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
            actions=by_kind(
                profile,
                recipe=(
                    "start the embedding at a standard deviation near 1: init.method = "
                    '"spike-no-more", or architecture.embedding_scale = "sqrt_width"',
                    "or put a norm behind the embedding: architecture.embedding_norm = true",
                ),
                config=(
                    "in your trainer: draw the embedding alone with a standard deviation near 1 "
                    "(initializer_range sets all matrices alike), with "
                    "tie_word_embeddings = false",
                    "or multiply what it gives by sqrt(hidden_size) = "
                    f"{sqrt(profile.sizes.width):.3g}, as Gemma's classes do, or put a norm "
                    "behind it",
                ),
            ),
            references=(SPIKE_NO_MORE,),
        )


def growth(profile: InitProfile) -> Iterator[Finding]:
    """INI003; a remark where norms stand elsewhere: what failed with it in public was pre-norm."""
    growth = profile.gradient_growth
    if growth >= GROWTH:
        elsewhere = profile.placement != "pre"
        said = (
            f"; with norms placed as here ({profile.placement}) that alone is no bad sign: OLMo 2, "
            "whose norms are not pre-norm either, starts with such growth and trained stably"
            if elsewhere
            else ""
        )
        yield finding(
            "INI003",
            profile,
            f"the gradient of the residual stream is {shown(growth)} times as large before layer "
            f"{profile.lowest} as behind the last ({_steepest(profile)}){said}",
            evidence={
                "gradient_growth": growth,
                "first": profile.layers[profile.lowest].stream_gradient,
                "last": profile.stream_gradient,
                "growth_exponents": dict(profile.growth_exponents()),
            },
            actions=_against_growth(profile),
            references=("OLMo 2, 2501.00656",) if elsewhere else (SPIKE_NO_MORE,),
            remark=elsewhere,
        )


def _against_growth(profile: InitProfile) -> tuple[str, ...]:
    """By what was judged: no reference to a condition that was not, or that is met."""
    rate = by_kind(
        profile,
        recipe=("expect the largest stable learning rate to be lower, and warm up longer "
                "(schedule.warmup_steps)",),
        config=("in your trainer: expect the largest stable learning rate to be lower, and warm up "
                "longer",),
    )  # fmt: skip
    if profile.placement != "pre":
        return rate
    told = [found.code for found in conditions(profile)]
    first = (
        f"do what {' and '.join(told)} {'says' if len(told) == 1 else 'say'}"
        if told
        else "enlarge what enters the first layer, or make the sub-layers smaller"
    )
    return (first, *(f"or {line}" for line in rate))


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

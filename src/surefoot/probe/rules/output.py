"""INI004 and INI008: the first loss."""

from collections.abc import Iterator
from math import isfinite, sqrt

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.making import by_kind, finding
from surefoot.records import Finding

ABOVE_UNIFORM = 0.3
"""Nats over ln V; random logits of standard deviation 0.77 cost as much."""


def head_too_sure(profile: InitProfile) -> Iterator[Finding]:
    """INI004: a first loss above that of a uniform guess, beyond the noise of its measurement."""
    excess = profile.loss - profile.ln_vocab
    if ABOVE_UNIFORM + 2 * profile.loss_error < excess < float("inf"):
        yield finding(
            "INI004",
            profile,
            f"the first loss is {profile.loss:.4g} nats, {excess:.3g} above the "
            f"{profile.ln_vocab:.4g} of a uniform guess: the head is sure before it has learnt "
            f"anything (standard deviation of the logits {profile.logit_std:.3g})",
            evidence={
                "loss": profile.loss,
                "ln_vocab": profile.ln_vocab,
                "excess": excess,
                "standard_error": profile.loss_error,
                "logit_std": profile.logit_std,
            },
            actions=by_kind(
                profile,
                recipe=(
                    "lower the standard deviation of the head, or set architecture.head_scale "
                    'below 1; with tied embeddings head_scale = "auto" does',
                ),
                config=(
                    "lower initializer_range, or in your trainer draw the output matrix (lm_head) "
                    "with a smaller standard deviation",
                    "or divide the output logits; with tie_word_embeddings = true by "
                    f"sqrt(hidden_size) = {sqrt(profile.sizes.width):.3g}",
                ),
            ),
        )


def not_finite(profile: InitProfile) -> Iterator[Finding]:
    """INI008: a first loss or gradient that is NaN or infinite."""
    numbers = {"loss": profile.loss, "gradient": profile.layers[0].stream_gradient}
    broken = {name: value for name, value in numbers.items() if not isfinite(value)}
    if broken:
        first = next((x.layer for x in profile.layers if not isfinite(x.stream_rms)), None)
        where = "" if first is None else f"; the first layer that reads such a stream is {first}"
        said = " and ".join(f"the {name} is {value}" for name, value in broken.items())
        yield finding(
            "INI008",
            profile,
            f"{said} at the first step{where}",
            evidence={**numbers, "first_layer": first},
            actions=by_kind(
                profile,
                recipe=("lower the standard deviations; 0.001 to 1 are usual",),
                config=("lower initializer_range; 0.006 to 0.02 are usual",),
            ),
        )

"""INI005 and INI007: what attention looks at first, and how far rotary positions reach."""

from collections.abc import Iterator

from surefoot.probe.profile import InitProfile
from surefoot.probe.rules.making import by_kind, finding
from surefoot.records import Finding

COLLAPSED = 0.25
"""Share of the entropy of uniform attention: of 2048 tokens, 7 are then looked at."""
BEYOND = 0.5
"""Share of the rotary channels that do not turn once in a sequence."""
USUAL_THETA = 10000.0


def collapsed(profile: InitProfile) -> Iterator[Finding]:
    """INI005: attention that starts nearly one-hot."""
    low = [
        (layer.entropy, layer)
        for layer in profile.layers
        if layer.entropy is not None and layer.entropy < COLLAPSED
    ]
    if low:
        entropy, worst = min(low, key=lambda pair: pair[0])
        yield finding(
            "INI005",
            profile,
            f"attention starts nearly one-hot in {len(low)} of {len(profile.layers)} layers: in "
            f"layer {worst.layer} it has {entropy:.2g} of the entropy of uniform attention, and "
            f"logits of standard deviation {worst.logit_std:.3g}",
            evidence={
                "entropy": entropy,
                "layers": [layer.layer for _, layer in low],
                "logit_std": worst.logit_std,
                "logit_max": worst.logit_max,
            },
            actions=by_kind(
                profile,
                recipe=(
                    "set architecture.qk_norm = true",
                    "or lower the standard deviation of the query and key matrices",
                ),
                config=(
                    "lower initializer_range, or in your trainer the standard deviation of the "
                    "query and key matrices",
                    "or take a model_type that norms queries and keys, such as qwen3 or olmo2",
                ),
            ),
            references=("Zhai et al. 2023, 2303.06296",),
            layer=str(worst.layer),
        )


def rotary(profile: InitProfile) -> Iterator[Finding]:
    """INI007: a theta that is far too large or too small for the sequences."""
    rotary, length = profile.rotary, profile.sequence_length
    if rotary is None:
        return
    turn = f"{rotary.longest:,.0f} tokens"
    if rotary.theta > USUAL_THETA and rotary.share_beyond > BEYOND:
        message = (
            f"rope_theta = {rotary.theta:g} is made for sequences longer than {length}: "
            f"{rotary.share_beyond:.0%} of the rotary channels do not turn once in one (the "
            f"slowest needs {turn})"
        )
        action = "lower rope_theta to 10000 unless longer sequences follow"
    elif rotary.longest < length:
        message = (
            f"rope_theta = {rotary.theta:g} is small for sequences of {length}: even the slowest "
            f"rotary channels turn once in {turn}, behind which positions repeat"
        )
        action = "raise rope_theta; 10000 is usual"
    else:
        return
    yield finding(
        "INI007",
        profile,
        message,
        evidence={
            "theta": rotary.theta,
            "longest_wavelength": rotary.longest,
            "share_beyond": rotary.share_beyond,
            "sequence_length": length,
        },
        actions=(action,),
        references=("Su et al. 2021, 2104.09864",),
    )

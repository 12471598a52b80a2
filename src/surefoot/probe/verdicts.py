"""What a profile says of a start: findings of the family INI, each with its number.

A finding about a recipe is a warning: what it names is still to be chosen. About a ``config.json``
it is a remark: the file states a class whose own initialisation was drawn, not how the model it
came with was started, nor at which rate. Thresholds are module constants, with their grounds.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite, sqrt
from typing import Any

from surefoot.codes import lookup
from surefoot.probe.profile import InitProfile, LayerProfile, TableProfile
from surefoot.records import Finding, Place, Severity

GROWTH = 3.0
"""Growth of the gradient that is told of: the geometric mean of 1.2, at which Scaled Embed trained,
and 7.2, at which the vanilla start spiked (Takase et al. 2023, 2312.16903)."""
VANISHES = 1 / GROWTH
"""Growth below which the gradient counts as vanishing."""
WORTH = sqrt(GROWTH**2 - 1)
"""How far what the sub-layers add may exceed the shortcut: the gradient then grows by GROWTH, as it
grows by sqrt(1 + added^2/shortcut^2) over linear sub-layers."""
LARGE_SHORTCUT = 0.5
"""Standard deviation of the shortcut that is "close to 1"; Scaled Embed has 0.63."""
ABOVE_UNIFORM = 0.3
"""Nats over ln V that random logits of standard deviation 0.77 cost."""
COLLAPSED = 0.25
"""Share of the entropy of uniform attention: of 2048 tokens, 7 are then looked at."""
BARELY = 0.1
"""Farthest movement of a table over the run, in units of its own RMS."""
BEYOND = 0.5
"""Share of the rotary channels that do not turn once."""
USUAL_THETA = 10000.0

_SPIKE_NO_MORE = "Takase et al. 2023, 2312.16903"


def verdicts(profile: InitProfile) -> list[Finding]:
    """The findings, in the order of their codes."""
    found: list[Finding] = []
    for rule in _RULES:
        found += rule(profile)
    return found


def not_checked(profile: InitProfile) -> list[Mapping[str, str]]:
    """Rules that could not be applied, and what each needs."""
    found: list[Mapping[str, str]] = []
    if profile.placement != "pre":
        needs = f'norm_placement = "pre" (here {profile.placement}): the bounds hold for it only'
        found += [{"code": code, "needs": needs} for code in ("INI001", "INI002")]
    if all(layer.entropy is None for layer in profile.layers):
        found.append(
            {"code": "INI005", "needs": "an attention that goes through torch's functions"}
        )
    if not any(table.reach is not None for table in profile.tables):
        needs = "a learning rate and a number of steps, which a config.json does not state"
        found.append({"code": "INI006", "needs": needs})
    if profile.rotary is None:
        found.append({"code": "INI007", "needs": "rotary positions"})
    return found


def _finding(
    code: str,
    profile: InitProfile,
    evidence: Mapping[str, Any],
    message: str,
    actions: tuple[str, ...] = (),
    references: tuple[str, ...] = (),
    *,
    severity: Severity | None = None,
    place: Place | None = None,
) -> Finding:
    entry = lookup(code)
    usual: Severity = entry.severity if profile.kind == "recipe" else "info"
    if entry.severity == "error":
        usual = "error"
    return Finding(
        code=code,
        name=entry.name,
        severity=severity or usual,
        place=place or Place(file=profile.target),
        evidence=evidence,
        message=message,
        actions=actions,
        references=references,
    )


def _not_finite(profile: InitProfile) -> Iterator[Finding]:
    numbers = {"loss": profile.loss, "gradient": profile.layers[0].stream_gradient}
    broken = [name for name, value in numbers.items() if not isfinite(value)]
    if broken:
        first = next((x.layer for x in profile.layers if not isfinite(x.stream_rms)), None)
        where = "" if first is None else f", first in what enters layer {first}"
        yield _finding(
            "INI009",
            profile,
            {**numbers, "first_layer": first},
            f"the {' and the '.join(broken)} of the first step would be {profile.loss}{where}",
            ("lower the standard deviations, or raise norm_eps if it is 0",),
        )


def _conditions(profile: InitProfile) -> Iterator[Finding]:
    if profile.placement != "pre":
        return
    shortcut, added = profile.layers[0].stream_rms, profile.added_rms
    growth = profile.gradient_growth
    if not (isfinite(added) and growth >= GROWTH):
        return
    bounds = _largest_bounds(profile)
    if added > WORTH:
        at_one = sqrt(1 + added**2)
        yield _finding(
            "INI001",
            profile,
            {
                "added_rms": added,
                "growth_at_unit_shortcut": at_one,
                "gradient_growth": growth,
                **bounds,
            },
            f"the sub-layers add {added:.3g} (RMS) to the residual stream, over {2 * len(profile.layers)}"
            f" of them: even beside embeddings of standard deviation 1 the gradient would grow about "
            f"{at_one:.3g} times toward the first layer",
            (
                "divide the attention and feed-forward output matrices by sqrt(2 layers): "
                "init.depth_scaled_outputs = true",
                'use a smaller standard deviation: init.std = "small" is sqrt(2/(5 d))',
            ),
            (_SPIKE_NO_MORE,),
        )
    if shortcut < LARGE_SHORTCUT and shortcut * WORTH < added:
        yield _finding(
            "INI002",
            profile,
            {"sigma_x": shortcut, "added_rms": added, "gradient_growth": growth, **bounds},
            f"the shortcut that enters the first layer has a standard deviation of {shortcut:.3g}; near "
            f"1 is wanted, and the sub-layers add {added:.3g}{_bounds_text(bounds)}",
            (
                'start the embedding at a standard deviation near 1: init.method = "spike-no-more", '
                'or architecture.embedding_scale = "sqrt_width"',
                "or put a norm behind the embedding: architecture.embedding_norm = true",
            ),
            (_SPIKE_NO_MORE,),
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


def _bounds_text(bounds: Mapping[str, float | int]) -> str:
    if "feed_forward_bound" not in bounds or "attention_bound" not in bounds:
        return ""
    return (
        f": the gradient may grow up to {bounds['attention_bound']:.3g} times over the attention of "
        f"layer {bounds['attention_bound_layer']} and {bounds['feed_forward_bound']:.3g} times over "
        f"the feed-forward block of layer {bounds['feed_forward_bound_layer']}"
    )


def _growth(profile: InitProfile) -> Iterator[Finding]:
    growth = profile.gradient_growth
    numbers = {
        "gradient_growth": growth,
        "first": profile.layers[0].stream_gradient,
        "last": profile.stream_gradient,
        "growth_exponents": dict(profile.growth_exponents()),
    }
    if growth >= GROWTH:
        # What failed in public with growing gradients was pre-norm; OLMo 2's placement trained.
        severity: Severity | None = None if profile.placement == "pre" else "info"
        yield _finding(
            "INI003",
            profile,
            numbers,
            f"the gradient of the residual stream is {growth:.3g} times as large before the first "
            f"layer as behind the last ({_steepest(profile)})",
            (
                "enlarge the embedding or make the sub-layers smaller, as INI001 and INI002 say",
                "or expect the largest stable learning rate to be lower: warm up longer",
            ),
            (_SPIKE_NO_MORE,),
            severity=severity,
        )
    elif growth <= VANISHES:
        yield _finding(
            "INI008",
            profile,
            numbers,
            f"the gradient of the residual stream falls to {growth:.3g} of its size from the last "
            "layer to before the first: the lower layers hardly learn at first",
            (
                'use norm_placement = "pre" or "b2t", which leave a way around the norms',
                "or warm up longer",
            ),
            ("Xiong et al. 2020, 2002.04745", "Takase et al. 2022, 2206.00330"),
        )


def _steepest(profile: InitProfile) -> str:
    """Over which layer it grows most."""
    above = [*(x.stream_gradient for x in profile.layers[1:]), profile.stream_gradient]
    steps = [
        (x.stream_gradient / higher if higher else 0.0, x.layer)
        for x, higher in zip(profile.layers, above, strict=True)
    ]
    most, layer = max(steps)
    return f"{most:.3g} times over layer {layer}"


def _loss(profile: InitProfile) -> Iterator[Finding]:
    excess = profile.loss - profile.ln_vocab
    if excess > ABOVE_UNIFORM + 2 * profile.loss_error:
        yield _finding(
            "INI004",
            profile,
            {"loss": profile.loss, "ln_vocab": profile.ln_vocab, "excess": excess,
             "standard_error": profile.loss_error, "logit_std": profile.logit_std},
            f"the first loss is {profile.loss:.4g} nats, {excess:.3g} above the {profile.ln_vocab:.4g} "
            f"of a uniform guess: the head is sure before it has learnt anything (standard deviation "
            f"of the logits {profile.logit_std:.3g})",
            (
                "lower the standard deviation of the head, or set architecture.head_scale below 1; "
                'with tied embeddings head_scale = "auto" does',
            ),
        )  # fmt: skip


def _entropy(profile: InitProfile) -> Iterator[Finding]:
    low = [x for x in profile.layers if x.entropy is not None and x.entropy < COLLAPSED]
    if low:
        worst = min(low, key=_entropy_of)
        yield _finding(
            "INI005",
            profile,
            {"entropy": worst.entropy, "layers": [x.layer for x in low],
             "logit_std": worst.logit_std, "logit_max": worst.logit_max},
            f"attention starts nearly one-hot in {len(low)} of {len(profile.layers)} layers: entropy "
            f"{worst.entropy:.2g} of uniform attention's in layer {worst.layer}, where the logits have "
            f"a standard deviation of {worst.logit_std:.3g}",
            (
                "set architecture.qk_norm = true",
                "or lower the standard deviation of the query and key matrices",
            ),
            ("Zhai et al. 2023, 2303.06296",),
            place=Place(file=profile.target, layer=str(worst.layer)),
        )  # fmt: skip


def _entropy_of(layer: LayerProfile) -> float:
    return layer.entropy if layer.entropy is not None else 1.0


def _tables(profile: InitProfile) -> Iterator[Finding]:
    for table in profile.tables:
        if table.reach is not None and table.reach < BARELY:
            yield _finding(
                "INI006",
                profile,
                {"table": table.name, "rms": table.rms, "reach": table.reach,
                 "warmup_reach": table.warmup_reach, "gradient": table.gradient},
                f"{table.name} starts with elements of RMS {table.rms:.3g}, and the optimizer can carry "
                f"none of them farther than {table.reach:.2g} of that in the whole run: it stays nearly "
                "as it was drawn",
                _table_actions(table),
                place=Place(file=profile.target, layer=table.name),
            )  # fmt: skip


def _table_actions(table: TableProfile) -> tuple[str, ...]:
    return (
        f"start it smaller (standard deviation {table.rms:.3g} now) and scale what it gives, as "
        'architecture.embedding_scale = "sqrt_width" does',
        "or train longer or at a higher rate; if its gradient is near eps, lower optimizer.eps",
    )


def _rotary(profile: InitProfile) -> Iterator[Finding]:
    rotary = profile.rotary
    if rotary is None:
        return
    numbers = {"theta": rotary.theta, "longest_wavelength": rotary.longest,
               "share_beyond": rotary.share_beyond, "sequence_length": profile.sequence_length}  # fmt: skip
    length = profile.sequence_length
    if rotary.theta > USUAL_THETA and rotary.share_beyond > BEYOND:
        yield _finding(
            "INI007",
            profile,
            numbers,
            f"rope_theta = {rotary.theta:g} is made for longer sequences than {length}: "
            f"{rotary.share_beyond:.0%} of the rotary channels do not turn once in one (the slowest needs "
            f"{rotary.longest:,.0f} tokens)",
            ("lower it to 10000 unless longer sequences follow",),
            severity="info",
        )
    elif rotary.longest < length:
        yield _finding(
            "INI007",
            profile,
            numbers,
            f"rope_theta = {rotary.theta:g} is small for sequences of {length}: even the slowest rotary "
            f"channels turn once in {rotary.longest:,.0f} tokens, behind which positions repeat",
            ("raise it",),
            severity="info",
        )


_RULES: tuple[Callable[[InitProfile], Iterator[Finding]], ...] = (
    _conditions,
    _growth,
    _loss,
    _entropy,
    _tables,
    _rotary,
    _not_finite,
)

"""A model before its first step: from a recipe or a config.json to numbers."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from surefoot.errors import UsageError
from surefoot.optim.schedule import learning_rate
from surefoot.probe.bounds import attention_bound, feed_forward_bound
from surefoot.probe.effort import require_possible, words
from surefoot.probe.measure import LayerSeen, Seen, measure
from surefoot.probe.profile import (
    InitProfile,
    LayerProfile,
    RotaryProfile,
    Sizes,
    TableProfile,
)
from surefoot.probe.reduce import FLOPS, Plan, flops, plan
from surefoot.probe.subject import Subject, standard_deviations
from surefoot.probe.target import Target, read_target
from surefoot.probe.widen import TABLES, build_narrow
from surefoot.recipe import Recipe
from surefoot.recipe.rope import longest_wavelength, share_beyond
from surefoot.recipe.size import physical_memory

LONGEST = 2048
"""Tokens of a sequence where a config.json does not say with how many it is trained."""


def profile_start(
    path: str | Path,
    settings: Sequence[str] = (),
    *,
    sequence_length: int | None = None,
    seed: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> InitProfile:
    """Build what a recipe or a config.json asks for, with random weights, and measure it.

    ::

        from surefoot.probe import profile_start, verdicts
        profile = profile_start("recipes/stdlib-1m.toml")
        profile.gradient_growth
        verdicts(profile)

    Args:
        path: a recipe (.toml), a config.json, or a folder with one.
        settings: ``section.key=value`` for a recipe.
        sequence_length: tokens of a sequence; default: the recipe's, or of a config.json as many as
            positions are made for, up to 2048.
        seed: of the tokens, and of the weights of a config.json.
        say: told what is done, a line at a time.

    Raises:
        ConfigError: a config.json that cannot be built.
        RecipeError: a recipe that cannot be used.
        UsageError: settings that go with nothing, or a model too large to be measured here.
    """
    target = read_target(Path(path), settings, seed=seed)
    if sequence_length is not None and sequence_length < 2:
        raise UsageError(f"--sequence-length {sequence_length}: expected 2 or more")
    if sequence_length is not None and sequence_length > target.length:
        raise UsageError(
            f"--sequence-length {sequence_length}: {path} has positions up to {target.length}"
        )
    length = sequence_length or target.length
    fixed = target.fixed_length or sequence_length is not None
    memory = physical_memory()
    chosen = plan(target.sizes, length if fixed else min(length, LONGEST), fixed_length=fixed,
                  memory=memory, alike=target.alike)  # fmt: skip
    require_possible(chosen, target.sizes, memory)
    if chosen.sizes.width != target.sizes.width:
        say(f"building it {chosen.sizes.width} wide instead of {target.sizes.width}")
    if flops(chosen) > 3 * FLOPS:
        say(f"{chosen.length} tokens through {chosen.sizes.layers} layers take minutes")
    subject = build_narrow(target.build, target.sizes, chosen.sizes)
    seen = measure(subject, chosen, seed)
    return _profile(str(path), target, chosen, subject, seen, length)


def _profile(
    shown: str, target: Target, chosen: Plan, subject: Subject, seen: Seen, length: int
) -> InitProfile:
    root = math.sqrt(target.sizes.width / chosen.sizes.width)
    # At full width: the tables as they are, every other matrix as it was before the reduction.
    stds = {
        role: std if role in TABLES else std / root
        for role, std in standard_deviations(subject.model, subject.roles).items()
    }
    rotary = None
    if target.rope_theta is not None and target.rotary_size >= 2:
        rotary = RotaryProfile(
            theta=target.rope_theta,
            head_size=target.rotary_size,
            longest=longest_wavelength(target.rotary_size, target.rope_theta),
            share_beyond=share_beyond(target.rotary_size, target.rope_theta, length),
        )
    return InitProfile(
        target=shown,
        kind=target.kind,
        model=target.model,
        method=target.recipe.init.method if target.recipe is not None else "",
        placement=subject.placement,
        sizes=target.sizes,
        measured_width=chosen.sizes.width,
        measured_heads=chosen.sizes.heads,
        sequence_length=length,
        measured_length=chosen.length,
        sequences=chosen.sequences,
        rows=chosen.rows,
        loss=seen.loss,
        loss_error=seen.loss_error,
        ln_vocab=math.log(target.sizes.vocab_size),
        logit_std=seen.logit_std,
        stream_rms=seen.stream_rms,
        stream_gradient=seen.stream_gradient,
        layers=tuple(
            _layer(i, layer, subject, stds, target.sizes) for i, layer in enumerate(seen.layers)
        ),
        tables=tuple(_tables(target, chosen, subject, seen, stds)),
        rotary=rotary,
        notes=(*words(target.sizes, chosen, length, target.alike), *target.notes),
        measured_experts=chosen.sizes.experts,
    )


def _layer(
    index: int, seen: LayerSeen, subject: Subject, stds: dict[str, float], sizes: Sizes
) -> LayerProfile:
    attention = feed_forward = None
    if subject.placement == "pre":
        if seen.attention_sigma is not None:
            attention = attention_bound(
                width=sizes.width,
                heads=sizes.heads,
                kv_heads=sizes.kv_heads,
                head_size=sizes.head_size,
                value_std=stds.get("attention_value", stds.get("attention_in", 0.0)),
                output_std=stds.get("attention_out", 0.0),
                sigma=seen.attention_sigma,
            )
        if seen.feed_forward_sigma is not None:
            feed_forward = feed_forward_bound(
                width=sizes.width,
                ff_width=sizes.ff_width,
                inner_std=stds.get("feed_forward_in", 0.0),
                output_std=stds.get("feed_forward_out", 0.0),
                sigma=seen.feed_forward_sigma,
                activation=subject.activation,
            )
    return LayerProfile(
        layer=index,
        stream_rms=seen.stream_rms,
        attention_rms=seen.attention_rms,
        feed_forward_rms=seen.feed_forward_rms,
        stream_gradient=seen.stream_gradient,
        parameter_gradient=seen.parameter_gradient,
        attention_sigma=seen.attention_sigma,
        feed_forward_sigma=seen.feed_forward_sigma,
        attention_bound=attention,
        feed_forward_bound=feed_forward,
        logit_std=seen.logit_std,
        logit_max=seen.logit_max,
        entropy=seen.entropy,
        entropy_min=seen.entropy_min,
    )


def _tables(
    target: Target, chosen: Plan, subject: Subject, seen: Seen, stds: dict[str, float]
) -> list[TableProfile]:
    found = []
    for name, parameter in subject.model.named_parameters():
        role = subject.roles[name]
        if role not in TABLES:
            continue
        # Of one token's own loss: the mean over `counted` of them was taken.
        counted = chosen.sequences * chosen.length
        gradient = seen.layers[0].stream_gradient * counted
        gradient /= math.sqrt(counted * target.sizes.width)
        reach = warmup = None
        recipe = target.recipe
        if role == "embedding":
            gradient *= subject.input_factor * subject.gradient_share
        if recipe is not None:
            tokens = recipe.batch.global_size * recipe.architecture.sequence_length
            gradient /= tokens
            steps = recipe.schedule.steps
            share = gradient / (gradient + recipe.optimizer.eps) / stds[role]
            reach = share * _travel(recipe, steps)
            warmup = share * _travel(recipe, recipe.schedule.warmup_steps)
        found.append(
            TableProfile(
                name=name,
                role=role,
                rows=parameter.shape[0],
                rms=stds[role],
                gradient=gradient,
                reach=reach,
                warmup_reach=warmup,
            )
        )
    return found


def _travel(recipe: Recipe, steps: int) -> float:
    """Sum of the learning rate over the first steps, by at most a thousand of them."""
    if steps < 1:
        return 0.0
    points = min(steps, 1000)
    at = [1 + i * (steps - 1) // max(1, points - 1) for i in range(points)]
    peak = recipe.optimizer.learning_rate
    return steps * sum(learning_rate(recipe.schedule, peak, step) for step in at) / points

"""ZClip against its formulas in plain Python, trap by trap."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.optim.clipping import ZClip


def reference(
    norms, *, z=2.5, clip=1.0, decay=0.97, warmup=25, factor=1.0, spread=False, old=False
):
    """(factors, mean, variance); each a line of the public code, in float64."""
    seen, mean, var, factors = [], None, None, []
    for n in norms:
        if not math.isfinite(n):
            factors.append(1.0)
            continue
        limit = None
        if len(seen) < warmup:
            seen.append(n)
            if len(seen) == warmup:
                mean, var = np.mean(seen), np.var(seen)
        else:
            std = math.sqrt(var)
            score = (n - mean) / (std + 1e-6)
            if score > z:
                eta = score / z
                limit = mean + factor * z * std / eta if spread else (mean + z * std / eta) * factor
            taken = n if limit is None else min(n, limit)
            before, mean = mean, decay * mean + (1 - decay) * taken
            var = decay * var + (1 - decay) * (taken - (before if old else mean)) ** 2
        effective = min(n if limit is None else limit, clip or math.inf)
        factors.append(effective / (n + 1e-6) if n > effective else 1.0)
    return factors, mean, var


def stream(seed, steps, spikes=0.05, bad=0.03):
    rng = np.random.default_rng(seed)
    norms = rng.lognormal(-1.5, 0.3, steps) * np.exp(np.cumsum(rng.normal(0, 0.01, steps)))
    norms[rng.random(steps) < spikes] *= 30
    at = rng.random(steps)
    norms[at < bad] = math.nan
    norms[at > 1 - bad] = math.inf
    norms[rng.integers(steps)] = 0.0
    return [float(n) for n in norms.astype(np.float32)]


OPTIONS = {
    "default": ({}, {}),
    "no cap": ({"clip": 0.0}, {"clip": 0.0}),
    "aggressive": ({"z": 2.0, "decay": 0.9, "factor": 0.5},) * 2,
    "factor on the spread": (
        {"factor": 0.5, "factor_of": "spread", "clip": 0.0},
        {"factor": 0.5, "spread": True, "clip": 0.0},
    ),
    "about the old mean": ({"about": "old"}, {"old": True}),
    "short": ({"warmup": 2},) * 2,
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_is_the_formula(name, seed):
    ours, plain = OPTIONS[name]
    clipper, norms = ZClip(**ours), stream(seed, 300)
    factors = [float(clipper(torch.tensor(n))) for n in norms]
    wanted, mean, var = reference(norms, **plain)
    np.testing.assert_allclose(factors, wanted, rtol=1e-6)
    assert float(clipper.mean) == pytest.approx(mean, rel=1e-12)
    assert float(clipper.variance) == pytest.approx(var, rel=1e-9)
    assert sum(f < 1 for f in wanted) > 5  # the streams do bring it to clip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(0, 1e6, width=32),
            st.sampled_from([math.nan, math.inf, 0.0, 1e-20, 1e30]),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_any_stream_gives_usable_factors(norms):
    clipper = ZClip(warmup=5)
    for n in norms:
        factor = float(clipper(torch.tensor(n)))
        assert 0 < factor <= 1
        assert factor == 1 or n * factor <= 1.0 + 1e-6
    assert clipper.mean.isfinite()
    assert clipper.variance >= 0
    assert int(clipper.steps) == sum(map(math.isfinite, norms))


def golden():
    clipper = ZClip(clip=0.0, warmup=4)
    for n in (1.0, 2.0, 3.0, 4.0):
        assert clipper(torch.tensor(n)) == 1
    assert clipper.mean == 2.5
    assert clipper.variance == 1.25
    return clipper


def test_by_hand():
    clipper = golden()
    n, std = 10.0, math.sqrt(1.25)
    z = 7.5 / (std + 1e-6)  # 6.708
    limit = 2.5 + 6.25 * std / z  # 3.5417
    assert float(clipper(torch.tensor(n))) == pytest.approx(limit / (n + 1e-6), rel=1e-6)
    mean = 0.97 * 2.5 + 0.03 * limit
    assert float(clipper.mean) == pytest.approx(mean, rel=1e-12)
    variance = 0.97 * 1.25 + 0.03 * (limit - mean) ** 2
    assert float(clipper.variance) == pytest.approx(variance, rel=1e-12)


def test_the_two_readings_differ_where_said():
    """The variance about the old mean is 1/decay^2 larger at rest."""
    rng = np.random.default_rng(0)
    new, old = ZClip(clip=0.0), ZClip(clip=0.0, about="old")
    ratios = []
    for n in rng.normal(1.0, 0.05, 1500).clip(0.8, 1.1):
        for clipper in (new, old):
            clipper(torch.tensor(float(n)))
        ratios.append(float(old.variance / new.variance))
    assert np.mean(ratios[500:]) == pytest.approx(1 / 0.97**2, rel=0.01)


def test_a_spike_comes_down_to_its_past():
    clipper = ZClip(clip=0.0)
    rng = np.random.default_rng(1)
    for n in rng.normal(1.0, 0.05, 200):
        clipper(torch.tensor(float(n)))
    before = float(clipper.mean)
    clipped = 40 * float(clipper(torch.tensor(40.0)))
    assert before < clipped < before + 0.005
    assert float(clipper.mean) < before + 0.001


def test_it_does_not_follow_a_rise():
    """The limitation of its docstring: after a rise of many deviations, clipped ever after."""
    clipper = ZClip(clip=0.0)
    rng = np.random.default_rng(2)
    for n in rng.normal(1.0, 0.05, 200):
        clipper(torch.tensor(float(n)))
    factors = [float(clipper(torch.tensor(float(n)))) for n in rng.normal(2.0, 0.05, 1000)]
    assert factors[0] == pytest.approx(0.5, abs=0.05)
    assert np.mean(factors[-100:]) == pytest.approx(0.5, abs=0.05)
    small = ZClip(clip=0.0)
    for n in rng.normal(1.0, 0.05, 200):
        small(torch.tensor(float(n)))
    factors = [float(small(torch.tensor(float(n)))) for n in rng.normal(1.1, 0.05, 1000)]
    assert np.mean(factors[-100:]) > 0.98  # a rise of two is followed

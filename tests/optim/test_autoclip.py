"""AutoClip's bounded history against all norms in a list."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.optim.clipping import AutoClip

WIDTH = 2 ** (1 / 128)
ROUNDING = 1e-6


def run(norms, percentile=10.0):
    """(our limits, exact limits, factors) after each step."""
    clipper, seen, found = AutoClip(percentile), [], []
    for n in norms:
        factor = float(clipper(torch.tensor(n)))
        if math.isfinite(n) and n > 0:
            seen.append(n)
        exact = float(np.percentile(seen, percentile)) if seen else math.inf
        found.append((float(clipper.limit()), exact, factor))
    return [np.array(column) for column in zip(*found, strict=True)]


def stream(seed, steps):
    rng = np.random.default_rng(seed)
    norms = rng.lognormal(-2, 1.0, steps)
    norms[rng.random(steps) < 0.05] *= 1000
    norms[rng.random(steps) < 0.05] = math.nan
    norms[rng.random(steps) < 0.05] = 0.0
    norms[rng.random(steps) < 0.02] = math.inf
    return norms.astype(np.float32).tolist()


@pytest.mark.parametrize("percentile", [1.0, 10.0, 50.0, 99.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_limit_is_the_percentile_within_half_a_percent(percentile, seed):
    norms = stream(seed, 250)
    ours, exact, factors = run(norms, percentile)
    started = np.isfinite(exact)
    ratio = ours[started] / exact[started]
    assert (ratio >= 1 - ROUNDING).all()
    assert (ratio <= WIDTH + ROUNDING).all()
    norms = np.array(norms)
    usable = np.isfinite(norms) & (norms > 0)
    wanted = np.minimum(1, ours[usable] / norms[usable])
    np.testing.assert_allclose(factors[usable], wanted, rtol=3e-7)
    assert (factors[~usable] == 1).all()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(2.0**-60, 2.0**60, width=32), min_size=1, max_size=40),
    st.floats(0.5, 99.5),
)
def test_any_norms(norms, percentile):
    ours, exact, factors = run(norms, percentile)
    assert (ours >= exact * (1 - ROUNDING)).all()
    assert (ours <= exact * (WIDTH + ROUNDING)).all()
    assert factors[0] == 1  # its own percentile
    assert ((factors > 0) & (factors <= 1)).all()


def test_the_order_of_the_norms_does_not_matter():
    norms = [n for n in stream(3, 200) if math.isfinite(n)]
    assert run(norms)[0][-1] == run(norms[::-1])[0][-1]


def test_edges_of_bins():
    """A power of two is its own limit; the next number up belongs to the next bin."""
    for n in (2.0**-20, 0.25, 1.0, 4.0):
        assert run([n])[0][0] == n
        above = float(np.nextafter(np.float32(n), np.float32(9)))
        assert run([above])[0][0] == pytest.approx(n * WIDTH, rel=1e-6)


def test_many_steps_count_exactly():
    """float32 would stop counting at 2^24 = 16.8 million."""
    clipper = AutoClip(10.0)
    clipper(torch.tensor(1.0))
    clipper(torch.tensor(4.0))
    lower, upper = clipper.counts.nonzero().flatten().tolist()
    clipper.counts[lower] = 10**8
    clipper.counts[upper] = 9 * 10**8
    assert clipper.limit() == pytest.approx(3.7)  # rank 1e8 - 0.1
    clipper.counts[lower] += 1
    assert clipper.limit() == 1.0
    clipper.counts[lower] -= 2
    assert clipper.limit() == 4.0


def test_norms_beyond_the_bins_count_to_the_outermost():
    ours, _, factors = run([1e-30, 1e30, 1e30, 1e30], percentile=50.0)
    assert ours[-1] == 2.0**64
    assert factors[-1] == pytest.approx(2.0**64 / 1e30, rel=1e-6)


def test_of_ten_steps_nine_are_clipped():
    """What a percentile of 10 means, said in its docstring."""
    rng = np.random.default_rng(0)
    _, _, factors = run(rng.lognormal(0, 1, 500).astype(np.float32).tolist())
    assert np.mean(factors[50:] < 1) == pytest.approx(0.9, abs=0.04)

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.report.thinning import block_max, by_group, peaks_by_column, stretches, thin


@given(st.integers(0, 2**31), st.integers(1, 5000), st.integers(4, 400))
@settings(deadline=None, max_examples=60)
def test_every_spike_and_dip_is_kept(seed, n, points):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n)
    values[rng.integers(0, n, 8)] += rng.choice([-50, 50], 8)
    kept = thin(values, points)
    assert np.all(np.diff(kept) > 0)
    assert {0, n - 1} <= set(kept.tolist())
    assert len(kept) <= max(points, n if n <= points else points + 2)
    width = math.ceil(n / (points // 2)) + 1 if n > points else 0
    for row in np.flatnonzero(np.abs(values) > 20):
        near = kept[np.abs(kept - row) <= width]
        if values[row] > 0:
            assert values[near].max() >= values[row]
        else:
            assert values[near].min() <= values[row]


def test_few_values_are_left_alone():
    assert thin(np.arange(7.0), 10).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert thin(np.array([]), 10).tolist() == []


def test_stretches_of_rows():
    steps = np.array([10, 20, 30, 40, 50, 60, 70])
    wanted = np.array([True, True, False, False, True, False, True])
    found = [(s.first, s.last, s.count) for s in stretches(steps, wanted, 10)]
    assert found == [(10, 20, 2), (50, 50, 1), (70, 70, 1)]
    # Joined where the gap is least; the count is of wanted rows only.
    found = [(s.first, s.last, s.count) for s in stretches(steps, wanted, 2)]
    assert found == [(10, 20, 2), (50, 70, 2)]
    assert stretches(steps, np.zeros(7, dtype=bool), 2) == []


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.integers(1, 20))
@settings(deadline=None, max_examples=100)
def test_stretches_cover_every_wanted_row_and_no_more_than_the_limit(wanted, limit):
    steps = np.arange(1, len(wanted) + 1)
    found = stretches(steps, np.array(wanted), limit)
    assert len(found) <= limit
    assert sum(s.count for s in found) == sum(wanted)
    for step, is_wanted in zip(steps, wanted, strict=True):
        if is_wanted:
            assert any(s.first <= step <= s.last for s in found)


@given(st.integers(0, 2**31), st.integers(1, 90), st.integers(1, 5), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_block_max_keeps_the_peak_of_each_place_and_flags_what_is_not_finite(seed, n, p, blocks):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, p))
    values[rng.random((n, p)) < 0.1] = np.nan
    values[rng.random((n, p)) < 0.1] = -np.inf
    recorded = rng.random((n, p)) < 0.8
    values[~recorded] = np.nan
    steps = np.cumsum(rng.integers(1, 5, n))
    found = block_max(steps, values, recorded, blocks)
    count = min(n, blocks)
    assert found.peaks.shape == found.broken.shape == (count, p)
    assert len(found.edges) == count + 1
    rows_seen = 0
    for b in range(count):
        rows = (steps > found.edges[b]) & (steps < found.edges[b + 1])
        rows_seen += rows.sum()
        assert 1 <= rows.sum() <= found.longest
        for place in range(p):
            column, known = values[rows, place], recorded[rows, place]
            finite = column[np.isfinite(column)]
            expected = np.abs(finite).max() if len(finite) else np.nan
            np.testing.assert_equal(found.peaks[b, place], expected)
            assert found.broken[b, place] == bool((known & ~np.isfinite(column)).any())
    assert rows_seen == n


def test_places_of_a_layer_are_gathered():
    places = (
        "embedding",
        "layers.0.attention.wq",
        "layers.0.norm",
        "layers.10.wo",
        "layers.1",
        "norm",
    )
    values = np.array([[1.0, 2, 3, 4, 5, np.nan]])
    blocks = block_max(np.array([1]), values, np.ones((1, 6), dtype=bool), 10)
    gathered, names = by_group(blocks, places)
    assert names == ("embedding", "layers.0", "layers.10", "layers.1", "norm")
    np.testing.assert_equal(gathered.peaks, [[1, 3, 4, 5, np.nan]])
    assert gathered.broken.tolist() == [[False, False, False, False, True]]


def test_layers_of_other_trainers_are_gathered_by_their_number():
    places = ("model.layers.0.q.weight", "model.layers.0.k.weight", "model.layers.1.q.weight")
    blocks = block_max(np.array([1]), np.ones((1, 3)), np.ones((1, 3), dtype=bool), 10)
    assert by_group(blocks, places)[1] == ("model.layers.0", "model.layers.1")


@pytest.mark.parametrize("columns", [1, 3, 8, 50])
def test_columns_keep_the_peak_and_the_broken(columns):
    values = np.array([1.0, 9, 2, np.nan, 3, np.inf, np.nan, 0])
    tops, broken = peaks_by_column(values, columns)
    assert np.nanmax(tops) == 9
    assert broken.any()
    assert len(tops) == min(columns, 8)

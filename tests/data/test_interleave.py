"""Blending is exact, balanced at every prefix, and invertible."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.interleave import Interleave
from surefoot.errors import DataError

WEIGHTS = [
    [1.0],
    [1.0, 1.0],
    [0.7, 0.3],
    [1e-3, 1.0],
    [3.0, 1.0, 1.0],
    [0.1, 0.2, 0.3, 0.4],
    [1, 2, 3, 4, 5, 6, 7],
    [0.123456789, 3.1415926535, 2.7182818284],
]


def slow_interleave(weights, count):
    """The same rule one item at a time, in fractions, by counting at each node of the tree."""
    exact = [Fraction(repr(w)) for w in weights]
    seen: dict[tuple[int, int], list[int]] = {}

    def draw(low, high):
        if high - low == 1:
            item = seen.setdefault((low, high), [0])
            item[0] += 1
            return low, item[0] - 1
        middle = (low + high) // 2
        share = (sum(exact[low:middle]) / sum(exact[low:high])).limit_denominator(2**31 - 1)
        state = seen.setdefault((low, high), [0, 0])
        state[0] += 1
        if int(state[0] * share) > state[1]:
            state[1] += 1
            return draw(low, middle)
        return draw(middle, high)

    return [draw(0, len(weights)) for _ in range(count)]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_same_as_the_slow_rule(weights):
    source, item = Interleave(weights).locate(np.arange(3000))
    assert list(zip(source.tolist(), item.tolist(), strict=True)) == slow_interleave(weights, 3000)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_each_source_gives_its_items_in_order_and_keeps_to_its_weight(weights):
    count = 3000
    blend = Interleave(weights)
    source, item = blend.locate(np.arange(count))
    drawn = np.cumsum(source[:, None] == np.arange(len(weights)), axis=0)
    for k in range(len(weights)):
        assert np.array_equal(item[source == k], np.arange(drawn[-1, k]))
    share = np.array(weights) / sum(weights)
    off = np.abs(drawn - np.arange(1, count + 1)[:, None] * share)
    assert off.max() < np.ceil(np.log2(max(2, len(weights)))) + 1e-6
    for n in (0, 1, 2, 17, count):
        assert blend.prefix_counts(n) == tuple(drawn[n - 1] if n else [0] * len(weights))


def test_a_decimal_weight_means_that_decimal():
    # In binary floating point 0.7 + 0.3 is no exact tenth: every 10 items must hold exactly 7.
    source, _ = Interleave([0.7, 0.3]).locate(np.arange(100_000))
    assert (source.reshape(-1, 10) == 0).sum(axis=1).tolist() == [7] * 10_000


@given(
    weights=st.lists(
        st.floats(1e-3, 1e3) | st.integers(1, 10**6).map(float), min_size=1, max_size=9
    ),
    start=st.integers(0, 2**50),
)
@settings(deadline=None, max_examples=60, database=None)
def test_inverse_at_any_weights_and_place(weights, start):
    blend = Interleave(weights)
    index = start + np.arange(50)
    source, item = blend.locate(index)
    assert np.array_equal(blend.index_of(source, item), index)
    counts = np.array(blend.prefix_counts(start))
    for k in range(len(weights)):
        mine = item[source == k]
        assert np.array_equal(mine, counts[k] + np.arange(len(mine)))


def test_inverse_gives_the_place_of_items_not_asked_in_order():
    blend = Interleave([5, 1, 3])
    source, item = blend.locate(np.arange(500))
    mix = np.random.default_rng(0).permutation(500)
    assert np.array_equal(blend.index_of(source[mix], item[mix]), mix)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_positive_number_is_named(bad):
    with pytest.raises(DataError, match=r"data\.sources\[1\]\.weight = .*positive number"):
        Interleave([1.0, bad])


def test_a_weight_too_small_ever_to_be_drawn_is_named():
    with pytest.raises(DataError, match=r"data\.sources\[2\]\.weight = 1e-12"):
        Interleave([1.0, 1.0, 1e-12])
    with pytest.raises(DataError, match=r"data\.sources\[0\]\.weight = 1e-12"):
        Interleave([1e-12, 1.0])
    Interleave([1.0, 1e-9])


def test_no_weights_and_unknown_sources_are_refused():
    with pytest.raises(ValueError, match="at least one weight"):
        Interleave([])
    with pytest.raises(IndexError, match=r"range\(2\)"):
        Interleave([1, 1]).index_of([2], [0])

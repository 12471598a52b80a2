"""Skip ranges: positions, raw indices, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.skips import Skips

ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 15)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=6,
)


@given(skipped=ranges)
@settings(deadline=None, max_examples=150, database=None)
def test_what_is_left_keeps_its_order_and_nothing_else_is_lost(skipped):
    skips = Skips(skipped)
    gone = {i for a, b in skipped for i in range(a, b)}
    left = [i for i in range(200) if i not in gone]
    raw = skips.raw(np.arange(len(left)))
    assert raw.tolist() == left
    position = skips.position(np.arange(200)).tolist()
    assert [p for p in position if p >= 0] == list(range(len(left)))
    assert {i for i, p in enumerate(position) if p < 0} == gone
    assert np.array_equal(skips.position(raw), np.arange(len(left)))


@given(first=ranges, start=st.integers(0, 50), size=st.integers(0, 30))
@settings(deadline=None, max_examples=150, database=None)
def test_skipping_the_raw_ranges_of_some_positions_leaves_just_those_out(first, start, size):
    skips = Skips(first)
    fed = skips.raw(np.arange(200)).tolist()
    after = skips.union(skips.raw_ranges(start, start + size))
    assert after.raw(np.arange(200 - size)).tolist() == fed[:start] + fed[start + size :]


@given(first=ranges, second=ranges)
@settings(deadline=None, max_examples=50, database=None)
def test_union_does_not_depend_on_the_order(first, second):
    assert Skips(first).union(second) == Skips(second).union(first) == Skips([*first, *second])


def test_ranges_are_united_and_sorted():
    skips = Skips([(10, 12), (3, 5), (5, 7), (6, 6), (11, 20)])
    assert skips.ranges == ((3, 7), (10, 20))
    assert hash(skips) == hash(Skips([(3, 7), (10, 20)]))
    assert not Skips([(4, 4)])
    assert Skips() != ()
    assert repr(skips) == "Skips([(3, 7), (10, 20)])"


def test_positions_far_out_are_exact():
    skips = Skips([(0, 1), (10**15, 10**15 + 10**6)])
    assert skips.raw([10**15 - 2, 10**15 - 1]).tolist() == [10**15 - 1, 10**15 + 10**6]
    assert skips.position([10**15, 10**15 + 10**6, 0]).tolist() == [-1, 10**15 - 1, -1]


@pytest.mark.parametrize("bad", [(-1, 3), (5, 4)])
def test_ranges_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match="0 <= start <= stop"):
        Skips([bad])

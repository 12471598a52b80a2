"""The order of samples is a bijection, a pure function, and never changes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data import SampleOrder, rank_share


def triples(order, positions):
    return list(zip(*(part.tolist() for part in order.locate(positions)), strict=True))


CASES = [
    ([1], [1.0]),
    ([2], [1.0]),
    ([3], [2.0]),
    ([17], [1.0]),
    ([1, 1], [1.0, 1.0]),
    ([1, 5], [0.9, 0.1]),
    ([7, 3, 11], [1.0, 2.0, 3.0]),
    ([4, 4, 4, 4, 9], [0.1, 0.2, 0.3, 0.25, 0.15]),
]
SKIPS = [(), [(0, 1)], [(5, 9), (20, 21)], [(0, 40)]]


@pytest.mark.parametrize("sizes_weights", CASES)
@pytest.mark.parametrize("skips", SKIPS)
def test_every_sample_of_every_epoch_comes_once(sizes_weights, skips):
    """Exhaustive over some epochs: nothing lost, nothing twice, but for what the skips say."""
    sizes, weights = sizes_weights
    plain = SampleOrder(seed=5, sizes=sizes, weights=weights)
    order = SampleOrder(seed=5, sizes=sizes, weights=weights, skips=skips)
    count = 400
    found = triples(order, range(count))
    assert len(set(found)) == count
    gone = {i for a, b in skips for i in range(a, b)}
    raw = [i for i in range(count + len(gone)) if i not in gone]
    everything = triples(plain, range(count + len(gone)))
    assert found == [everything[i] for i in raw]
    # Complete epochs hold each sample just once.
    drawn = np.bincount([source for source, _, _ in everything], minlength=len(sizes))
    for source, size in enumerate(sizes):
        for epoch in range(drawn[source] // size):
            samples = [s for a, e, s in everything if (a, e) == (source, epoch)]
            assert sorted(samples) == list(range(size))
    back = order.positions(*np.array(found).T)
    assert back.tolist() == list(range(count))
    lost = [everything[i] for i in sorted(gone)]
    if lost:
        assert set(order.positions(*np.array(lost).T).tolist()) == {-1}


def test_a_trillion_samples():
    order = SampleOrder(
        seed=7,
        sizes=[10**12, 3 * 10**11 + 7, 12_345],
        weights=[0.75, 0.2, 0.05],
        skips=[(10**6, 2 * 10**6), (10**12, 10**12 + 5)],
    )
    draw = np.random.default_rng(1)
    positions = np.unique(
        np.concatenate(
            [draw.integers(0, 5 * 10**12, 4000), 10**6 - 50 + np.arange(100), np.arange(100)]
        )
    )
    located = order.locate(positions)
    assert np.array_equal(order.positions(*located), positions)
    assert len(set(zip(*(p.tolist() for p in located), strict=True))) == len(positions)
    assert (located.sample < np.array(order.sizes)[located.source]).all()
    shares = np.bincount(located.source) / len(positions)
    assert np.abs(shares - [0.75, 0.2, 0.05]).max() < 0.03


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    seed=st.integers(0, 2**64),
    starts=st.lists(st.integers(0, 300), max_size=3),
)
@settings(deadline=None, max_examples=40, database=None)
def test_a_skip_moves_the_rest_up_and_changes_nothing_else(sizes, seed, starts):
    order = SampleOrder(seed=seed, sizes=sizes)
    ranges = [(a, a + 7) for a in starts]
    gone = {i for a, b in ranges for i in range(a, b)}
    whole = triples(order, range(400))
    skipped = order.with_skips(ranges)
    left = [whole[i] for i in range(400) if i not in gone]
    assert triples(skipped, range(len(left))) == left


def test_skips_add_up_and_speak_of_raw_indices():
    order = SampleOrder(seed=1, sizes=[1000])
    whole = triples(order, range(1000))
    once = order.with_skips([(10, 20)])
    # A second skip, found at positions 50..59 of the first one's order.
    twice = once.with_skips(once.raw_ranges(50, 60))
    assert twice.skips.ranges == ((10, 20), (60, 70))
    assert triples(twice, range(980)) == whole[:10] + whole[20:60] + whole[70:]


def test_the_order_does_not_depend_on_how_it_is_asked():
    order = SampleOrder(seed=3, sizes=[11, 200], weights=[1, 3])
    whole = triples(order, range(300))
    assert [triples(order, [i])[0] for i in range(300)] == whole
    mix = np.random.default_rng(0).permutation(300)
    assert triples(order, mix) == [whole[i] for i in mix]
    assert triples(SampleOrder(seed=3, sizes=[11, 200], weights=[1, 3]), range(300)) == whole


def test_any_world_size_feeds_the_same_global_batches():
    order = SampleOrder(seed=3, sizes=[500, 70])
    consumed = 0
    for size in (8, 12, 5, 1):
        batch = triples(order, range(consumed, consumed + size))
        for world in (1, 2, 3, 8):
            shares = [rank_share(consumed, size, rank, world) for rank in range(world)]
            assert [t for share in shares for t in triples(order, share)] == batch
        consumed += size


def test_seed_stream_and_epoch_change_the_order_and_weights_do_not():
    size = 2000
    base = SampleOrder(seed=1, sizes=[size]).locate(range(2 * size)).sample
    others = [
        SampleOrder(seed=2, sizes=[size]).locate(range(size)).sample,
        SampleOrder(seed=1, sizes=[size], stream="validation").locate(range(size)).sample,
        base[size:],
    ]
    for a, b in itertools.combinations([base[:size], *others], 2):
        assert (a == b).sum() < 10
    # Within its source, the order of the samples is the same whatever the blend.
    for weights in ([1, 1], [5, 2]):
        located = SampleOrder(seed=1, sizes=[size, 10], weights=weights).locate(range(2 * size))
        mine = located.sample[located.source == 0]
        assert np.array_equal(mine, base[: len(mine)])


def test_golden():
    """The order of a run must never change: these numbers may not be edited."""
    order = SampleOrder(
        seed=1234, sizes=[10, 10**12, 1000], weights=[0.2, 0.5, 0.3], skips=[(4, 6), (1000, 1010)]
    )
    assert triples(order, [*range(12), 1000, 10**6]) == GOLDEN
    validation = SampleOrder(seed=1, sizes=[97], stream="validation")
    assert validation.locate(range(95, 103)).sample.tolist() == GOLDEN_VALIDATION


GOLDEN = [
    (2, 0, 596),
    (1, 0, 667268848798),
    (2, 0, 340),
    (1, 0, 868836470532),
    (2, 0, 714),
    (1, 0, 227405435415),
    (1, 0, 172212495835),
    (0, 0, 0),
    (2, 0, 969),
    (1, 0, 223559537443),
    (2, 0, 776),
    (1, 0, 813031610155),
    (2, 0, 996),
    (2, 300, 136),
]
GOLDEN_VALIDATION = [46, 24, 44, 9, 5, 6, 42, 92]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        SampleOrder(seed=1, sizes=[3, 0])
    with pytest.raises(ValueError, match="at least one sample"):
        SampleOrder(seed=1, sizes=[])
    with pytest.raises(ValueError, match="2 sizes but 1 weights"):
        SampleOrder(seed=1, sizes=[3, 4], weights=[1.0])
    with pytest.raises(IndexError, match="count from 0, got -1"):
        SampleOrder(seed=1, sizes=[3]).locate([-1])

"""The permutation is exact, keyed, and looks like chance."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.permutation import MAX_SIZE, Permutation, keyed_permutation, permute

HUGE = [10**12, 10**12 + 39, 2**40, 2**40 - 1, 2**61 + 1, MAX_SIZE]


@pytest.mark.parametrize("n", [*range(1, 70), 99, 100, 101, 255, 256, 257, 1000, 4097, 65537])
def test_every_index_is_hit_once_and_the_inverse_is_exact(n):
    for key in (b"", b"a", b"b"):
        shuffle = Permutation(n, key)
        there = shuffle(np.arange(n))
        assert np.array_equal(np.sort(there), np.arange(n))
        assert np.array_equal(shuffle.inverse(there), np.arange(n))
        assert np.array_equal(shuffle(shuffle.inverse(np.arange(n))), np.arange(n))


@pytest.mark.parametrize("n", HUGE)
def test_at_huge_sizes_the_inverse_is_exact_and_nothing_meets(n):
    draw = np.random.default_rng(n % 2**32)
    index = np.unique(
        np.concatenate([draw.integers(0, n, 20_000), np.arange(2000), n - 1 - np.arange(2000)])
    )
    shuffle = Permutation(n, b"huge")
    there = shuffle(index)
    assert there.min() >= 0
    assert there.max() < n
    assert len(np.unique(there)) == len(index)
    assert np.array_equal(shuffle.inverse(there), index)


@given(n=st.integers(1, MAX_SIZE), key=st.binary(max_size=8), data=st.data())
@settings(deadline=None, max_examples=60, database=None)
def test_inverse_of_any_index_of_any_size(n, key, data):
    index = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5)))
    shuffle = Permutation(n, key)
    assert np.array_equal(shuffle.inverse(shuffle(index)), index)


def test_one_at_a_time_or_in_any_shape_is_the_same():
    shuffle = Permutation(1000, b"k")
    whole = shuffle(np.arange(24))
    assert [int(shuffle(i)) for i in range(24)] == whole.tolist()
    assert np.array_equal(shuffle(np.arange(24).reshape(2, 3, 4)), whole.reshape(2, 3, 4))
    assert shuffle(np.zeros(0, dtype=np.int64)).shape == (0,)


def test_many_permutations_at_once_are_each_its_own():
    shuffles = [Permutation(n, b"k%d" % n) for n in (1, 2, 7, 10**12, MAX_SIZE)]
    which = np.random.default_rng(0).integers(0, 5, 500)
    index = np.arange(500) % np.array([min(s.n, 400) for s in shuffles])[which]
    there = permute(shuffles, which, index)
    alone = [int(shuffles[w](i)) for w, i in zip(which, index, strict=True)]
    assert there.tolist() == alone
    assert np.array_equal(permute(shuffles, which, there, inverse=True), index)


@pytest.mark.parametrize("bad", [-1, 1000, [0, 1000], 0.5])
def test_what_is_out_of_range_is_refused(bad):
    with pytest.raises(IndexError, match=r"range\(1000\)"):
        Permutation(1000, b"k")(bad)


@pytest.mark.parametrize("n", [0, -1, MAX_SIZE + 1])
def test_sizes_that_cannot_be_are_refused(n):
    with pytest.raises(ValueError, match="1 <= n"):
        Permutation(n, b"k")


# Statistics. Bounds are about 5 standard deviations of what a uniform permutation gives.


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_small_permutations_all_come_up_equally_often(n):
    count = 6000
    shuffles = [Permutation(n, str(k).encode()) for k in range(count)]
    there = permute(shuffles, np.repeat(np.arange(count), n), np.tile(np.arange(n), count))
    seen = Counter(map(tuple, there.reshape(count, n).tolist()))
    cells = int(np.prod(np.arange(1, n + 1)))
    expected = count / cells
    chi2 = sum((v - expected) ** 2 / expected for v in seen.values())
    chi2 += expected * (cells - len(seen))
    assert chi2 < (cells - 1) + 5 * np.sqrt(2 * (cells - 1))


@pytest.mark.parametrize("n", [10_007, 65_536, 100_000])
@pytest.mark.parametrize("key", [b"1", b"2"])
def test_no_structure_is_visible(n, key):
    there = Permutation(n, key)(np.arange(n))
    i = np.arange(n)
    # Mean displacement of a random permutation: n/3 with standard deviation about n sqrt(1/18n).
    assert abs(np.abs(there - i).mean() - n / 3) < 5 * n / np.sqrt(18 * n)
    # Where each tenth of the indices goes, in tenths: no cell is favoured.
    table = np.histogram2d(i, there, bins=10)[0]
    assert ((table - n / 100) ** 2 / (n / 100)).sum() < 81 + 5 * np.sqrt(162)
    # Neighbours are unrelated: correlation, ascents, and the differences between them.
    assert abs(np.corrcoef(there[:-1], there[1:])[0, 1]) < 5 / np.sqrt(n)
    assert abs((np.diff(there) > 0).mean() - 0.5) < 5 / np.sqrt(12 * n)
    assert Counter(np.diff(there).tolist()).most_common(1)[0][1] < 12
    # Residues of small moduli: a linear rule would show there.
    for modulus in (2, 3, 7, 16):
        table = np.zeros((modulus, modulus))
        np.add.at(table, (i % modulus, there % modulus), 1)
        cell = n / modulus**2
        free = (modulus - 1) ** 2
        assert ((table - cell) ** 2 / cell).sum() < free + 5 * np.sqrt(2 * free) + 2
    assert (there == i).sum() < 10


def test_consecutive_indices_spread_evenly_at_a_trillion():
    n, count = 10**12, 50_000
    there = Permutation(n, b"x")(np.arange(count) + 123_456_789)
    cells = np.bincount(there // (n // 100), minlength=100)
    assert ((cells - count / 100) ** 2 / (count / 100)).sum() < 99 + 5 * np.sqrt(198)
    low = np.bincount(there % 97, minlength=97)
    assert ((low - count / 97) ** 2 / (count / 97)).sum() < 96 + 5 * np.sqrt(192)


def test_other_seeds_sources_and_epochs_are_unrelated():
    n = 20_000
    orders = [
        keyed_permutation(n, seed, source, epoch)(np.arange(n))
        for seed, source, epoch in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (11, 0, 0)]
    ]
    for a, first in enumerate(orders):
        for second in orders[:a]:
            assert (first == second).sum() < 10  # Poisson of mean 1
            assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(n)


def test_parts_of_a_key_do_not_run_into_each_other():
    one, two = keyed_permutation(1000, 1, 23), keyed_permutation(1000, 12, 3)
    assert not np.array_equal(one(np.arange(1000)), two(np.arange(1000)))

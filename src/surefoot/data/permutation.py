"""A keyed permutation of ``range(n)`` in O(1) an element, without a table, and its inverse.

A Feistel network (Luby and Rackoff 1988) over pairs (left, right) of Z_a x Z_b with a b >= n, whose
rounds add a hash of one half to the other; what falls at or above n is sent round again (cycle
walking, Black and Rogaway 2002). With a = ceil(sqrt(n)) and b = ceil(n / a) fewer than one index in
sqrt(n) needs that.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROUNDS = 16
"""Half-rounds. 8 hide all structure at large n; at n = 5, where a round has few values to choose
from, 16 are needed before all permutations come up equally often (chi-square over 24000 keys)."""

MAX_SIZE = 2**62
"""Largest n: the halves and their product stay clear of the ends of uint64."""

_U = NDArray[np.uint64]


class Permutation:
    """A bijection of ``range(n)`` chosen by a key.

    ::

        shuffle = Permutation(10**12, b"seed 1, epoch 0")
        where = shuffle([0, 1, 2])                  # three distinct numbers below 10**12
        assert (shuffle.inverse(where) == [0, 1, 2]).all()

    The values are part of the promise that an order never changes: a golden test pins them.

    Args:
        n: how many elements, 1 to 2**62.
        key: any bytes; equal keys give equal permutations.
    """

    def __init__(self, n: int, key: bytes) -> None:
        if not 1 <= n <= MAX_SIZE:
            raise ValueError(f"a permutation needs 1 <= n <= 2**62, got {n}")
        self.n = n
        self.left = isqrt(n - 1) + 1
        self.right = -(-n // self.left)
        digests = [blake2b(key, salt=bytes([i])).digest() for i in range(ROUNDS // 8)]
        self.keys = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def __call__(self, index: ArrayLike) -> NDArray[np.int64]:
        """Where each index goes; any shape of integers in ``range(n)``, same shape back."""
        given = np.asarray(index)
        return permute([self], 0, given.reshape(-1)).reshape(given.shape)

    def inverse(self, index: ArrayLike) -> NDArray[np.int64]:
        """Where each index came from."""
        given = np.asarray(index)
        return permute([self], 0, given.reshape(-1), inverse=True).reshape(given.shape)


def permute(
    permutations: Sequence[Permutation],
    which: ArrayLike,
    index: ArrayLike,
    *,
    inverse: bool = False,
) -> NDArray[np.int64]:
    """Each index by a permutation of its own, all at once.

    Args:
        permutations: at least one.
        which: number of the permutation of each index; a number or an array like ``index``.
        index: 1-d integers, each below its permutation's n.
        inverse: go back instead.
    """
    given = np.asarray(index)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    which = np.broadcast_to(np.asarray(which), given.shape)
    size = np.array([p.n for p in permutations], dtype=np.uint64)[which]
    # Compared as uint64: older numpy compares int64 with uint64 through float64.
    values = given.astype(np.uint64)
    if given.dtype.kind not in "iu" or (given < 0).any() or (values >= size).any():
        raise IndexError(f"expected integers in range({permutations[which[0]].n})")
    left = np.array([p.left for p in permutations], dtype=np.uint64)[which]
    right = np.array([p.right for p in permutations], dtype=np.uint64)[which]
    keys = np.stack([p.keys for p in permutations], axis=1)
    keys = np.broadcast_to(keys, (ROUNDS, len(which))) if keys.shape[1] == 1 else keys[:, which]
    turn = _backward if inverse else _forward
    values = turn(values, left, right, keys)
    # The cycle of an index below n comes back below n, so this ends.
    outside = np.flatnonzero(values >= size)
    while outside.size:
        values[outside] = turn(values[outside], left[outside], right[outside], keys[:, outside])
        outside = outside[values[outside] >= size[outside]]
    return values.astype(np.int64)


def _forward(values: _U, left: _U, right: _U, keys: _U) -> _U:
    """One pass through the network over Z_left x Z_right; ``keys`` is (ROUNDS, len(values))."""
    high, low = values // right, values % right
    for i in range(0, ROUNDS, 2):
        high = (high + _hash(low + keys[i])) % left
        low = (low + _hash(high + keys[i + 1])) % right
    return high * right + low


def _backward(values: _U, left: _U, right: _U, keys: _U) -> _U:
    high, low = values // right, values % right
    for i in range(ROUNDS - 2, -1, -2):
        low = (low + right - _hash(high + keys[i + 1]) % right) % right
        high = (high + left - _hash(low + keys[i]) % left) % left
    return high * right + low


def _hash(values: _U) -> _U:
    """63 bits of the finaliser of SplitMix64 (Steele, Lea and Flood 2014).

    The 64th is left off so that a half can be added without a carry out of uint64.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (values ^ (values >> np.uint64(31))) >> np.uint64(1)


@lru_cache(maxsize=512)
def keyed_permutation(n: int, *parts: Any) -> Permutation:
    """The permutation of ``range(n)`` for a tuple of numbers and words, kept for reuse."""
    return Permutation(n, "\n".join(str(part) for part in parts).encode())

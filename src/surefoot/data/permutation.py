"""A keyed permutation of ``range(n)`` in O(1) an element, without a table, and its inverse.

A Feistel network (Luby and Rackoff 1988) over pairs (left, right) of Z_a x Z_b with a b >= n, whose
rounds add a hash of one half to the other; what falls at or above n is sent round again (cycle
walking, Black and Rogaway 2002). With a = ceil(sqrt(n)) and b = ceil(n / a) fewer than one index in
sqrt(n) needs that.
"""

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
        left = isqrt(n - 1) + 1
        self._left = np.uint64(left)
        self._right = np.uint64(-(-n // left))
        digests = [blake2b(key, salt=bytes([i])).digest() for i in range(ROUNDS // 8)]
        self._keys = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def __call__(self, index: ArrayLike) -> NDArray[np.int64]:
        """Where each index goes; any shape of integers in ``range(n)``, same shape back."""
        return self._walk(index, forward=True)

    def inverse(self, index: ArrayLike) -> NDArray[np.int64]:
        """Where each index came from."""
        return self._walk(index, forward=False)

    def _walk(self, index: ArrayLike, *, forward: bool) -> NDArray[np.int64]:
        given = np.asarray(index)
        if given.size == 0:
            return np.zeros(given.shape, dtype=np.int64)
        if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= self.n:
            raise IndexError(f"expected integers in range({self.n})")
        values = given.reshape(-1).astype(np.uint64)
        turn = self._forward if forward else self._backward
        values = turn(values)
        # The cycle of an index below n comes back below n, so this ends.
        outside = np.flatnonzero(values >= self.n)
        while outside.size:
            values[outside] = turn(values[outside])
            outside = outside[values[outside] >= self.n]
        return values.astype(np.int64).reshape(given.shape)

    def _forward(self, values: _U) -> _U:
        left, right = values // self._right, values % self._right
        for i in range(0, ROUNDS, 2):
            left = (left + _hash(right + self._keys[i])) % self._left
            right = (right + _hash(left + self._keys[i + 1])) % self._right
        return left * self._right + right

    def _backward(self, values: _U) -> _U:
        left, right = values // self._right, values % self._right
        for i in range(ROUNDS - 2, -1, -2):
            step = _hash(left + self._keys[i + 1]) % self._right
            right = (right + self._right - step) % self._right
            step = _hash(right + self._keys[i]) % self._left
            left = (left + self._left - step) % self._left
        return left * self._right + right


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

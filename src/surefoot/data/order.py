"""Which sample comes when, as a pure function of (seed, sizes, weights, skip ranges, position)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.interleave import Interleave
from surefoot.data.permutation import Permutation, keyed_permutation, permute
from surefoot.data.skips import Skips

_I = NDArray[np.int64]


class Located(NamedTuple):
    """Where samples come from: three int64 arrays of equal length."""

    source: _I
    """Number of the source."""
    epoch: _I
    """Passes over that source completed before."""
    sample: _I
    """Number of the sample within the source, in file order."""


class SampleOrder:
    """The infinite, shuffled, blended order of the samples.

    A position goes to a raw index (skips), that to a source and a running number within it (blend),
    and that to an epoch and, by a permutation keyed by (seed, source, epoch), to a sample. Each
    stage is O(1) or O(log sources) without a table and is exactly invertible, so rewinding,
    resuming, replaying and another world size are arithmetic.

    ::

        order = SampleOrder(seed=1, sizes=[10**12, 1000], weights=[0.9, 0.1])
        source, epoch, sample = order.locate(range(1000, 1016))
        order.positions(source, epoch, sample)      # 1000 .. 1015

    Args:
        seed: any integer.
        sizes: samples in each source, at least 1.
        weights: share of each source; default equal.
        skips: raw indices that are not fed.
        stream: another word gives an unrelated order of the same samples.
    """

    def __init__(
        self,
        *,
        seed: int,
        sizes: Sequence[int],
        weights: Sequence[float] | None = None,
        skips: Skips | Iterable[tuple[int, int]] = (),
        stream: str = "train",
    ) -> None:
        if min(sizes, default=0) < 1:
            raise ValueError(f"every source needs at least one sample, got sizes {list(sizes)}")
        self.seed = seed
        self.sizes = tuple(int(n) for n in sizes)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.sizes)
        if len(self.weights) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} sizes but {len(self.weights)} weights")
        self.skips = skips if isinstance(skips, Skips) else Skips(skips)
        self.stream = stream
        self._blend = Interleave(self.weights)

    def locate(self, positions: ArrayLike) -> Located:
        """Source, epoch and sample at each position of a 1-d array or range."""
        at = np.array(positions, dtype=np.int64, ndmin=1)
        if at.size and at.min() < 0:
            raise IndexError(f"positions count from 0, got {at.min()}")
        source, item = self._blend.locate(self.skips.raw(at))
        epoch, place = np.divmod(item, np.array(self.sizes, dtype=np.int64)[source])
        permutations, which = self._permutations(source, epoch)
        return Located(source, epoch, permute(permutations, which, place))

    def positions(self, source: ArrayLike, epoch: ArrayLike, sample: ArrayLike) -> _I:
        """Inverse of :meth:`locate`; -1 where the sample is skipped in that epoch."""
        sources, epochs, samples = np.broadcast_arrays(
            *(np.array(x, dtype=np.int64, ndmin=1) for x in (source, epoch, sample))
        )
        permutations, which = self._permutations(sources, epochs)
        place = permute(permutations, which, samples, inverse=True)
        item = epochs * np.array(self.sizes, dtype=np.int64)[sources] + place
        return self.skips.position(self._blend.index_of(sources, item))

    def epochs(self, positions: int) -> float:
        """Passes over a source by the first so many positions; of all sources, the most.

        What is skipped on the way counts as passed.
        """
        if positions < 1:
            return 0.0
        raw = int(self.skips.raw(positions - 1)) + 1
        counts = self._blend.prefix_counts(raw)
        return max(n / size for n, size in zip(counts, self.sizes, strict=True))

    def with_skips(self, ranges: Iterable[tuple[int, int]]) -> "SampleOrder":
        """This order without further ranges of raw indices; all else keeps its place in line."""
        return SampleOrder(
            seed=self.seed,
            sizes=self.sizes,
            weights=self.weights,
            skips=self.skips.union(ranges),
            stream=self.stream,
        )

    def raw_ranges(self, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Raw ranges of the positions ``start .. stop - 1``: what to skip to leave those out."""
        return self.skips.raw_ranges(start, stop)

    def _permutations(self, source: _I, epoch: _I) -> tuple[list[Permutation], _I]:
        """The distinct permutations of some samples, and which of them is each one's."""
        pairs = list(zip(source.tolist(), epoch.tolist(), strict=True))
        numbers = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        permutations = [
            keyed_permutation(self.sizes[s], "surefoot order 1", self.seed, self.stream, s, e)
            for s, e in numbers
        ]
        return permutations, np.array([numbers[pair] for pair in pairs], dtype=np.int64)

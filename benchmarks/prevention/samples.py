"""The text that the experiments train on: the interpreter's own sources, in sequences of a length.

Every Python has them, though not every Python the same: a result names the version it was made on.
One byte-level BPE vocabulary of 512 for all of them.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from surefoot.data import prepare
from surefoot.recipe import Data, DataSource

VOCAB_SIZE = 512
POOL_TOKENS = 2**21
HELD_OUT_TOKENS = 2**15


@dataclass(frozen=True, slots=True)
class Text:
    """Samples of one length.

    Attributes:
        pool: (N, length + 1) int64, to train on.
        held_out: likewise, of documents that are in no sample of the pool.
        sha256: of what was read.
    """

    pool: Tensor
    held_out: Tensor
    sha256: str

    def batch(self, seed: int, first: int, size: int, repeat: int | None = None) -> Tensor:
        """Samples ``first`` to ``first + size`` of a seed's order, (size, length + 1).

        Args:
            seed: of the order.
            first: number of the first.
            size: how many.
            repeat: draw from this many samples over and over; None = from all.
        """
        number = len(self.pool) if repeat is None else repeat
        order = _order(number, seed)
        return self.pool[order[torch.arange(first, first + size) % number]]


@functools.lru_cache(maxsize=8)
def _order(number: int, seed: int) -> Tensor:
    """A permutation (N,); the same at every step of a run."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(1_000_003 * seed + 17))


def load(length: int, cache: Path) -> Text:
    """The text in sequences of ``length`` tokens; token files are kept in ``cache``."""
    data = Data(sources=(DataSource(kind="stdlib"),), seed=0, validation_fraction=0.05)
    corpus = prepare(data, vocab_size=VOCAB_SIZE, sequence_length=length, seed=0, cache_dir=cache)
    pool = corpus.train.batch(range(POOL_TOKENS // length))
    held_out = corpus.validation.batch(range(HELD_OUT_TOKENS // length))
    return Text(torch.from_numpy(pool), torch.from_numpy(held_out), corpus.content_sha256)

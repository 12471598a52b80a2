"""The text that SpikeBench trains on: two domains that every Python ships with.

``code``: the interpreter's own sources. ``prose``: the language reference that ``help()`` shows.
Both are cut by one byte-level BPE vocabulary of 512, trained on the code.
"""

import functools
import pydoc_data.topics
from pathlib import Path

import torch
from torch import Tensor

from surefoot.data import Corpus, prepare
from surefoot.recipe import Data, DataSource

VOCAB_SIZE = 512
LENGTH = 64
SAMPLES = {"code": 30_000, "prose": 6_000}
HELD_OUT = 24


class Text:
    """Samples of both domains, in memory.

    Args:
        folder: where token files are kept between runs.

    Attributes:
        pools: by domain, (N, LENGTH + 1) int64.
        held_out: likewise, of documents that are in no pool.
        sha256: of what was read, by domain.
    """

    def __init__(self, folder: Path) -> None:
        code = self._prepare(folder, DataSource(kind="stdlib"), "bpe")
        topics = folder / "prose"
        topics.mkdir(parents=True, exist_ok=True)
        for name, text in pydoc_data.topics.topics.items():
            path = topics / f"{name}.txt"
            if not path.exists():
                path.write_text(text, "utf-8")
        source = DataSource(kind="files", path=str(topics))
        prose = self._prepare(folder, source, str(code.tokenizer_path))
        corpora = {"code": code, "prose": prose}
        self.pools: dict[str, Tensor] = {}
        self.held_out: dict[str, Tensor] = {}
        for name, corpus in corpora.items():
            self.pools[name] = torch.from_numpy(corpus.train.batch(range(SAMPLES[name])))
            held_out = corpus.validation.batch(range(HELD_OUT))
            self.held_out[name] = torch.from_numpy(held_out)
        self.sha256 = {name: corpus.content_sha256 for name, corpus in corpora.items()}

    @staticmethod
    def _prepare(folder: Path, source: DataSource, tokenizer: str) -> Corpus:
        data = Data(sources=(source,), tokenizer=tokenizer, seed=0, validation_fraction=0.05)
        return prepare(
            data, vocab_size=VOCAB_SIZE, sequence_length=LENGTH, seed=0, cache_dir=folder / "cache"
        )

    @functools.lru_cache(maxsize=8)  # noqa: B019  (one Text lives as long as the program)
    def order(self, domain: str, seed: int) -> Tensor:
        """A permutation of the domain's samples (N,)."""
        generator = torch.Generator().manual_seed(1_000_003 * seed + 17)
        return torch.randperm(len(self.pools[domain]), generator=generator)

    def batch(self, domain: str, seed: int, first: int, size: int, length: int) -> Tensor:
        """Samples ``first`` to ``first + size`` of a seed's order, (size, length + 1)."""
        order = self.order(domain, seed)
        index = torch.arange(first, first + size) % len(order)
        return self.pools[domain][order[index], : length + 1]

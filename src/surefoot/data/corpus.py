"""A prepared corpus: tokens for training and validation, and the tokenizer that made them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from surefoot.data.dataset import TokenDataset
from surefoot.data.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What :func:`surefoot.data.prepare` gives.

    Attributes:
        train: the training samples, in the run's order.
        validation: the held-out samples, in a fixed order and with the same blend.
        tokenizer: encodes and decodes.
        tokenizer_path: its ``tokenizer.json``, in the cache.
        content_sha256: over every document of every source, its identity and its text.
        skipped: what was passed over and why, for people.
    """

    train: TokenDataset
    validation: TokenDataset
    tokenizer: Tokenizer
    tokenizer_path: Path
    content_sha256: str
    skipped: tuple[str, ...]

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text, without special tokens."""
        return self.tokenizer.encode(text)

    def decode(self, tokens: Iterable[int] | NDArray[Any]) -> str:
        """The text of tokens, special ones included."""
        return self.tokenizer.decode(tokens)

    @property
    def end_of_text(self) -> int:
        """The token that ends every document."""
        return self.tokenizer.end_of_text

    @property
    def vocabulary(self) -> int:
        """Tokens of the tokenizer; at most the model's ``vocab_size``."""
        return self.tokenizer.size

    def evaluation_indices(self, samples: int) -> range:
        """The validation samples that an evaluation of this size uses: the first, at most all."""
        return range(min(samples, len(self.validation)))

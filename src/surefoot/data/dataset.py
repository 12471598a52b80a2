"""Samples: windows of consecutive tokens, in the order of :class:`~surefoot.data.SampleOrder`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.order import SampleOrder
from surefoot.data.tokens import Span, TokenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a sample comes from.

    Attributes:
        source: name of the source: ``stdlib``, or its path; escaped as :class:`Span` does.
        epoch: passes over the source completed before, from 0.
        sample: number of the window in the source's token file.
        raw_index: number of the sample in the order without skips; skip ranges speak of these.
        documents: the parts of documents that the sample's tokens come from, in order.
    """

    source: str
    epoch: int
    sample: int
    raw_index: int
    documents: tuple[Span, ...]

    @property
    def file(self) -> str:
        """The file of the first document, named within its source."""
        return self.documents[0].file


class TokenDataset:
    """Samples of ``sequence_length + 1`` tokens, shuffled and blended, without end.

    Window k of a source holds its tokens k L .. k L + L (L = ``sequence_length``): the last one is
    the first of the next window, so that each token but the very first is predicted once an epoch.
    Documents follow one another, each ended by the end-of-text token; what is left behind the last
    whole window is not used.

    ::

        dataset.batch(range(1000, 1016))        # (16, L + 1) int64
        dataset.provenance(1000).documents[0].file

    Args:
        files: one token file a source.
        names: of the sources.
        weights: share of each source.
        sequence_length: tokens of a sequence, L.
        seed: of the order.
        stream: see :class:`~surefoot.data.SampleOrder`.
        order: overrides seed, weights and stream.
    """

    def __init__(
        self,
        files: Sequence[TokenFile],
        names: Sequence[str],
        *,
        sequence_length: int,
        weights: Sequence[float] | None = None,
        seed: int = 0,
        stream: str = "train",
        order: SampleOrder | None = None,
    ) -> None:
        self.files = tuple(files)
        self.names = tuple(names)
        self.sequence_length = sequence_length
        sizes = [windows(len(file), sequence_length) for file in self.files]
        self.order = order or SampleOrder(seed=seed, sizes=sizes, weights=weights, stream=stream)
        """Which sample comes when."""

    def __len__(self) -> int:
        """Samples of one pass over every source."""
        return sum(self.order.sizes)

    @property
    def tokens(self) -> int:
        """Tokens in all sources."""
        return sum(len(file) for file in self.files)

    def epochs(self, samples: int) -> float:
        """Passes over the source most often repeated, by the first ``samples`` samples.

        Above 1, some of them are fed a second time.
        """
        return self.order.epochs(samples)

    def batch(self, indices: Sequence[int] | range | NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at these positions, int64 of shape (len(indices), sequence_length + 1)."""
        located = self.order.locate(indices)
        length = self.sequence_length
        out = np.empty((len(located.source), length + 1), dtype=np.int64)
        window = np.arange(length + 1)
        for source in np.unique(located.source):
            rows = np.flatnonzero(located.source == source)
            starts = located.sample[rows] * length
            out[rows] = self.files[source].tokens[starts[:, None] + window]
        return out

    def sample(self, index: int) -> NDArray[np.int64]:
        """The sample at one position, int64 of shape (sequence_length + 1,)."""
        return self.batch([index]).reshape(-1)

    def provenance(self, index: int) -> Provenance:
        """Source, epoch, file and documents of the sample at one position."""
        source, epoch, sample = (int(part[0]) for part in self.order.locate([index]))
        start = sample * self.sequence_length
        return Provenance(
            source=self.names[source],
            epoch=epoch,
            sample=sample,
            raw_index=int(self.order.skips.raw(index)),
            documents=self.files[source].spans(start, start + self.sequence_length + 1),
        )

    def document_tokens(self, index: int, span: Span) -> NDArray[np.int64]:
        """The tokens of a document from its beginning to where a span of a sample begins.

        Decoding them gives the text before the span, so its character and byte offset.

        Args:
            index: position of the sample.
            span: one of its ``provenance(index).documents``.
        """
        source, _, sample = (int(part[0]) for part in self.order.locate([index]))
        file = self.files[source]
        position = sample * self.sequence_length
        for other in file.spans(position, position + self.sequence_length + 1):
            if other == span:
                tokens = file.tokens[position - span.token_offset : position]
                return np.asarray(tokens, dtype=np.int64)
            position += other.tokens
        raise ValueError(f"{span} is no part of sample {index}")

    def with_skips(self, ranges: Iterable[tuple[int, int]]) -> "TokenDataset":
        """The same without further ranges of raw indices; the rest keeps its order."""
        return TokenDataset(
            self.files,
            self.names,
            sequence_length=self.sequence_length,
            order=self.order.with_skips(ranges),
        )


def windows(tokens: int, sequence_length: int) -> int:
    """Whole samples in a token file."""
    return max(0, (tokens - 1) // sequence_length)

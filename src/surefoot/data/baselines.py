"""What a model must beat: the validation loss of a unigram and of a bigram model."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from surefoot.data.corpus import Corpus
from surefoot.data.tokens import TokenFile

MOST_TOKENS = 50_000_000
"""Training tokens counted at most; of more, evenly spaced blocks."""

_BLOCK = 1 << 22

_I = NDArray[np.int64]


def baselines(
    corpus: Corpus, samples: int, *, most_tokens: int = MOST_TOKENS
) -> tuple[float, float]:
    """Cross-entropy of two count models on the validation samples, in nats a token.

    They are estimated from the training tokens (all sources together, unweighted) and score the
    ``sequence_length`` predictions of each of the samples that an evaluation of this size uses.
    With c the counts, V the vocabulary and N the number of counted tokens:

    - unigram, add-one smoothing: p(w) = (c(w) + 1) / (N + V);
    - bigram, interpolated absolute discounting (Ney, Essen and Kneser 1994):
      p(w | v) = max(c(v, w) - D, 0) / c(v) + D T(v) / c(v) p(w), where T(v) is the number of
      distinct followers of v and D = n1 / (n1 + 2 n2) from the numbers of bigrams seen once and
      twice (0.5 if there are none); p(w) after a token that was never followed.

    Args:
        corpus: from :func:`surefoot.data.prepare`.
        samples: as ``evaluation.samples``.
        most_tokens: tokens counted at most, in evenly spaced blocks.

    Returns:
        (unigram, bigram).
    """
    size = corpus.vocabulary
    words = np.zeros(size, dtype=np.int64)
    pairs = _Pairs()
    for tokens in _blocks(corpus.train.files, most_tokens):
        words += np.bincount(tokens[:_BLOCK], minlength=size)
        pairs.add(tokens[:-1] * size + tokens[1:])
    unigram = (words + 1) / (words.sum() + size)

    data = corpus.validation.batch(corpus.evaluation_indices(samples))
    before, after = data[:, :-1].reshape(-1), data[:, 1:].reshape(-1)
    p_word = unigram[after]

    context = pairs.codes // size
    followed = np.bincount(context, weights=pairs.counts, minlength=size)
    followers = np.bincount(context, minlength=size)
    once, twice = (int((pairs.counts == k).sum()) for k in (1, 2))
    discount = once / (once + 2 * twice) if once else 0.5
    seen = pairs.lookup(before * size + after)
    total = np.maximum(followed[before], 1)
    p_pair = np.maximum(seen - discount, 0) / total + discount * followers[before] / total * p_word
    p_pair = np.where(followed[before] > 0, p_pair, p_word)
    return float(-np.log(p_word).mean()), float(-np.log(p_pair).mean())


class _Pairs:
    """Counts of bigrams, sparse: sorted codes and how often each was seen."""

    def __init__(self) -> None:
        self.codes = np.zeros(0, dtype=np.int64)
        self.counts = np.zeros(0, dtype=np.int64)

    def add(self, codes: _I) -> None:
        new, counts = np.unique(codes, return_counts=True)
        merged, where = np.unique(np.concatenate([self.codes, new]), return_inverse=True)
        weights = np.concatenate([self.counts, counts])
        self.counts = np.zeros(len(merged), dtype=np.int64)
        np.add.at(self.counts, where, weights)
        self.codes = merged

    def lookup(self, codes: _I) -> _I:
        if not len(self.codes):
            return np.zeros(len(codes), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.counts[at], 0)


def _blocks(files: tuple[TokenFile, ...], most_tokens: int) -> Iterator[_I]:
    """Blocks of tokens, each with the first token of the next, so that no bigram is lost."""
    places = [(file, start) for file in files for start in range(0, len(file), _BLOCK)]
    step = max(1, -(-len(places) * _BLOCK // most_tokens))
    for file, start in places[::step]:
        yield np.asarray(file.tokens[start : start + _BLOCK + 1], dtype=np.int64)

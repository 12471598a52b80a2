"""The baselines against a plain Python reference."""

import importlib
import math
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from surefoot.data import baselines

module = importlib.import_module("surefoot.data.baselines")


def reference(corpus, samples):
    """The definition in the docstring, word by word, in dictionaries and fsum."""
    words, pairs, followed, followers = Counter(), Counter(), Counter(), defaultdict(set)
    for file in corpus.train.files:
        tokens = file.tokens.tolist()
        words.update(tokens)
        for v, w in pairwise(tokens):
            pairs[v, w] += 1
            followed[v] += 1
            followers[v].add(w)
    once = sum(count == 1 for count in pairs.values())
    twice = sum(count == 2 for count in pairs.values())
    discount = once / (once + 2 * twice) if once else 0.5
    size, total = corpus.vocabulary, sum(words.values())

    def p_word(w):
        return (words[w] + 1) / (total + size)

    def p_pair(v, w):
        if not followed[v]:
            return p_word(w)
        seen = max(pairs[v, w] - discount, 0) / followed[v]
        return seen + discount * len(followers[v]) / followed[v] * p_word(w)

    for v in (0, 100, 299):  # each is a distribution
        if v < size:
            assert math.isclose(math.fsum(p_pair(v, w) for w in range(size)), 1)
    one, two = [], []
    for row in corpus.validation.batch(range(min(samples, len(corpus.validation)))).tolist():
        for v, w in pairwise(row):
            one.append(-math.log(p_word(w)))
            two.append(-math.log(p_pair(v, w)))
    return math.fsum(one) / len(one), math.fsum(two) / len(two)


@pytest.mark.parametrize("samples", [1, 7, 10_000])
@pytest.mark.parametrize("block", [64, 1 << 22])
def test_same_as_the_reference(corpus, samples, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    assert np.allclose(baselines(corpus, samples), reference(corpus, samples), rtol=1e-12)


def test_a_blend_counts_all_sources(write, make, tmp_path, words):
    for name, length in (("a", 200), ("b", 60)):
        write(tmp_path / name, {f"{i}.txt": words(i + length, length) for i in range(10)})
    corpus = make(tmp_path / "a", tmp_path / "b", weights=[1.0, 5.0], validation_fraction=0.3)
    assert np.allclose(baselines(corpus, 40), reference(corpus, 40), rtol=1e-12)


def test_they_are_ordered_as_they_should_be(corpus):
    unigram, bigram = baselines(corpus, 1000)
    assert bigram < unigram - 0.3
    assert unigram < math.log(corpus.vocabulary)


def test_unseen_tokens_have_a_finite_loss(write, make, tmp_path):
    """Held-out tokens, and contexts, that training never saw."""
    write(tmp_path / "c", {f"{i:02d}.txt": "a" * (i + 3) for i in range(40)})
    corpus = make(tmp_path / "c", validation_fraction=0.2)
    held = {corpus.validation.provenance(i).file for i in range(len(corpus.validation))}
    write(tmp_path / "c", {name: "xyz🙂" * 8 for name in held})
    corpus = make(tmp_path / "c", validation_fraction=0.2)
    assert np.allclose(baselines(corpus, 5), reference(corpus, 5), rtol=1e-12)
    assert np.isfinite(baselines(corpus, 5)).all()


def test_of_a_huge_corpus_evenly_spaced_blocks_are_counted(corpus, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 64)
    [file] = corpus.train.files
    blocks = list(module._blocks((file,), len(file) // 4))
    assert len(file) // 6 < sum(len(block) - 1 for block in blocks) <= len(file) // 4 + 64
    assert all(len(block) in (65, len(file) % 64) for block in blocks)
    part, whole = baselines(corpus, 50, most_tokens=len(file) // 4), baselines(corpus, 50)
    assert part != whole
    assert abs(part[0] - whole[0]) < 0.3

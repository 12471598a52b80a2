"""Small corpora, and a corpus prepared from one."""

import os
import random
from pathlib import Path

import pytest

from surefoot.data import prepare
from surefoot.recipe import Data, DataSource


def _write(folder, files):
    """Write {name: text or bytes} and set every file's time back, as a settled corpus has it."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (10**9, 10**9))
    return Path(folder)


@pytest.fixture(scope="session")
def write():
    return _write


def _words(seed, count):
    draw = random.Random(0)
    vocabulary = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(50)]
    draw.seed(seed)
    weights = [1 / (rank + 1) for rank in range(50)]
    words = draw.choices(vocabulary, weights, k=count)
    return " ".join(w + ("\n" if i % 9 == 8 else "") for i, w in enumerate(words)) + "\n"


@pytest.fixture(scope="session")
def words():
    """words(seed, count): lines of made-up words."""
    return _words


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """40 small text files with a few odd characters; only read it."""
    root = tmp_path_factory.mktemp("corpus") / "texts"
    return _write(root, {f"d{i:02d}.txt": f"é🙂{i}\r\n\t" + _words(i, 120) for i in range(40)})


@pytest.fixture(scope="session")
def corpus(folder, tmp_path_factory):
    """`folder`, prepared: 300 tokens at most, sequences of 32, a fifth held out."""
    data = Data(sources=(DataSource(kind="files", path=str(folder)),), validation_fraction=0.2)
    cache = tmp_path_factory.mktemp("cache")
    return prepare(data, vocab_size=300, sequence_length=32, seed=1, cache_dir=cache)


@pytest.fixture
def make(tmp_path):
    """make(path or paths, ...): a corpus with its cache below tmp_path."""

    def build(*paths, weights=None, vocab_size=300, sequence_length=16, seed=1, **settings):
        sources = tuple(
            DataSource(kind="files", path=str(p), weight=w)
            for p, w in zip(paths, weights or [1.0] * len(paths), strict=True)
        )
        progress = settings.pop("progress", None)
        return prepare(
            Data(sources=sources, **settings),
            vocab_size=vocab_size,
            sequence_length=sequence_length,
            seed=seed,
            cache_dir=tmp_path / "cache",
            progress=progress,
        )

    return build

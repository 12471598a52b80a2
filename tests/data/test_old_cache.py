"""A cache that another version wrote, or that is damaged, costs time and nothing else."""

import hashlib
import json
import os

import pytest

from surefoot.data import prepare
from surefoot.recipe import Data, DataSource


def made(corpus, cache):
    data = Data(sources=(DataSource(kind="files", path=str(corpus)),))
    return prepare(data, vocab_size=300, sequence_length=16, seed=1, cache_dir=cache)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: {k: v for k, v in value.items() if k != "characters"},
        lambda value: {**value, "from_later": 1},
        lambda value: {**value, "documents": "many"},
        lambda value: {**value, "split": None},
        lambda value: [],
        lambda value: None,
    ],
)
def test_a_survey_of_another_shape_is_read_again(change, tmp_path):
    corpus, cache = tmp_path / "corpus", tmp_path / "cache"
    corpus.mkdir()
    for number in range(8):
        path = corpus / f"{number}.txt"
        path.write_text(f"words {number} " * 60, encoding="utf-8")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    first = made(corpus, cache)
    (kept,) = (cache / "surveys").glob("*.json")
    changed = change(json.loads(kept.read_bytes())["value"])
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
    kept.write_text(json.dumps({"sha256": digest, "value": changed}), encoding="utf-8")
    again = made(corpus, cache)
    assert again.content_sha256 == first.content_sha256
    assert list(again.train.sample(0)) == list(first.train.sample(0))

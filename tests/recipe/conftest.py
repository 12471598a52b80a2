from pathlib import Path

import pytest

TEXT = """\
# A recipe that holds everything that is required.
name = "small"

[architecture]
layers = 2
width = 64
heads = 4
kv_heads = 2
vocab_size = 512
sequence_length = 64

[optimizer]
learning_rate = 3e-4

[schedule]
kind = "cosine"
steps = 500
warmup_steps = 25

[batch]
global_size = 16

[[data.sources]]
kind = "stdlib"
weight = 2.0

[[data.sources]]
kind = "files"
path = "corpus/*.txt"

[evaluation]
every = 100
"""


@pytest.fixture
def text():
    return TEXT


@pytest.fixture
def write(tmp_path):
    """Writes the text with one place replaced; `recipe.toml` in messages is this file."""

    def make(old: str = "", new: str = "") -> Path:
        assert not old or TEXT.count(old) == 1, old
        path = tmp_path / "recipe.toml"
        path.write_text(TEXT.replace(old, new) if old else TEXT + new, encoding="utf-8")
        return path

    return make

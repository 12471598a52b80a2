"""A tiny corpus and recipe, and runs of the real command in a process of its own."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = """
name = "tiny"
seed = 3

[architecture]
layers = 2
width = 32
heads = 4
kv_heads = 2
vocab_size = 320
sequence_length = 32

[optimizer]
learning_rate = 1e-2

[schedule]
steps = 12
warmup_steps = 2

[batch]
global_size = 4
micro_size = 2

[[data.sources]]
kind = "files"
path = "corpus"

[data]
cache_dir = "{cache}"
validation_fraction = 0.2

[training]
device = "cpu"
threads = 1

[evaluation]
every = 5
samples = 8

[checkpoint]
every = 4
keep_newest = 2
confirm_after = 2

[signals]
sample_every = 3
"""


def write_corpus(folder: Path, documents: int = 24) -> None:
    """Documents of words drawn by Zipf's law, each word often followed by the same next word."""
    draw = random.Random(11)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    folder.mkdir(parents=True)
    for number in range(documents):
        text, word = [], 0
        for _ in range(160):
            text.append(words[word])
            stay = draw.random() < 0.5
            word = (word * 7 + 1) % 60 if stay else draw.choices(range(60), weights)[0]
        (folder / f"doc{number:02d}.txt").write_text(" ".join(text) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tiny.toml` and its corpus; shared, so only read it."""
    folder = tmp_path_factory.mktemp("tiny")
    write_corpus(folder / "corpus")
    recipe = RECIPE.replace("{cache}", str(folder / "cache"))
    (folder / "tiny.toml").write_text(recipe, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def command():
    """`surefoot` in a process of its own: command(folder, "train", ..., environment={...})."""

    def run(
        folder: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SUREFOOT_")}
        return subprocess.run(
            [sys.executable, "-m", "surefoot", *arguments],
            cwd=folder,
            env=inherited | {"OMP_NUM_THREADS": "1"} | (environment or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run

"""A tiny corpus and recipe, and runs of the real command in a process of its own."""

import multiprocessing
import os
import random
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Done:
    """How a process ended; the return code is negative for a signal, as of subprocess."""

    returncode: int
    stdout: str
    stderr: str


def _child(folder: str, arguments: tuple[str, ...], environment: dict[str, str], out: str) -> None:
    """Body of a process of its own: the command line, its output in files."""
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith("SUREFOOT_")]:
        del os.environ[name]
    os.environ.update(environment)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{out}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
    from surefoot.cli import main

    status = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory):
    """`surefoot` in a process of its own: command(folder, "train", ..., environment={...}).

    The processes are forked from a server that has torch loaded, which saves seconds for each.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "polars", "surefoot.train", "surefoot.report"])

    def run(
        folder: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> Done:
        out = tmp_path_factory.mktemp("output")
        process = context.Process(
            target=_child, args=(str(folder), arguments, environment or {}, str(out))
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            pytest.fail(f"surefoot {' '.join(arguments)} took over {timeout} s")
        texts = [
            (out / name).read_text(encoding="utf-8", errors="replace")
            for name in ("stdout", "stderr")
        ]
        return Done(process.exitcode, *texts)

    return run

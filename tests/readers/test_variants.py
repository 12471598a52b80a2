"""The mess of real logs: packed, coloured, prefixed, interleaved, cut. The table stays the same.

Each variant is made of every real log that is at hand, and of small logs written here.
"""

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path

import polars as pl
import pytest
import zstandard

from surefoot.errors import LogError
from surefoot.readers import read_run

from .conftest import REAL

MEGATRON = "".join(
    f" iteration {i:8d}/     400 | consumed samples: {i * 64:12d} | "
    f"elapsed time per iteration (ms): {1000 + i / 10:.1f} | "
    f"learning rate: {1e-4 * i / 400:.3E} | global batch size:    64 | "
    f"lm loss: {8.0 - i / 200:.6E} | loss scale: 1.0 | grad norm: {1.0 + i / 1000:.3f} | "
    f"number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    for i in range(10, 401, 10)
)
NANOGPT = "".join(
    f"iter {i}: loss {5 - i / 1000:.4f}, time {300 + i / 7:.2f}ms, mfu {30 + i / 100:.2f}%\n"
    for i in range(0, 300, 10)
)
TITAN = "".join(
    f"[titan] 2025-03-0{1 + i // 200} 10:00:{i % 60:02d},123 - root - INFO - step: {i:2d}  "
    f"loss: {9 - i / 100:.5f}  grad_norm: {1 + i / 50:.4f}  memory: 20.5{i % 10}GiB(25.{i % 9}%)  "
    f"tps: {10000 + i:,}  tflops: {100 + i / 10:.2f}  mfu: {30 + i / 100:.2f}%\n"
    for i in range(1, 60)
)
SMALL = {"megatron.log": MEGATRON, "nanogpt.log": NANOGPT, "torchtitan.log": TITAN}

TEXTS = (
    "bigscience-chronicles/*", "bigscience-gpt2-meg*/*", "deepspeed-chat-step1/*",
    "issue-*/*.log", "modded-nanogpt-*/*", "nemo-resiliency-nb/*.log", "olmo-1b-tied/*",
    "mlperf4*/*",
)  # fmt: skip


def real(patterns: tuple[str, ...]) -> list:
    """Files of the corpus; reading the large ones thirty times over is left to the slow tests."""
    found = [path for pattern in patterns for path in sorted(REAL.glob(pattern))]
    return [
        pytest.param(
            str(path.relative_to(REAL)),
            marks=[pytest.mark.slow] if path.stat().st_size > 150_000 else [],
        )
        for path in found
    ]


LOGS = real(TEXTS)
DOCUMENTS = real(
    (
        "*golden*/*h100.json", "hf-trainer-state-*/*", "llamafactory*/*", "mindspeed-llm*/*",
        "olmo-wandb*/*", "torchtitan-losses/*",
    )
)  # fmt: skip


def table(path: Path) -> pl.DataFrame:
    """The rows that were read, without the wall clock of a prefix; columns sorted."""
    frame = read_run(path).signals
    names = sorted(set(frame.columns) - {"timestamp"})
    return frame.select(names)


@pytest.fixture(params=[*SMALL, *LOGS])
def log(request, tmp_path):
    """(text, its table) of a log, small or real."""
    if request.param in SMALL:
        text = SMALL[request.param]
    else:
        text = (REAL / request.param).read_text("utf-8", errors="replace")
    path = tmp_path / "plain"
    path.write_text(text, newline="")
    return text, table(path)


def check(tmp_path: Path, content: bytes, expected: pl.DataFrame, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = table(path)
    assert found.columns == expected.columns
    assert found.equals(expected, null_equal=True)


PACKINGS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "two gz members": lambda b: gzip.compress(b[: len(b) // 2]) + gzip.compress(b[len(b) // 2 :]),
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_packed(log, tmp_path, packing):
    text, expected = log
    check(tmp_path, PACKINGS[packing](text.encode()), expected, "log.txt")


ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_in_another_encoding(log, tmp_path, encoding):
    text, expected = log
    check(tmp_path, text.encode(encoding), expected, "log.txt")


def test_with_crlf(log, tmp_path):
    text, expected = log
    unix = text.replace("\r\n", "\n")
    check(tmp_path, unix.replace("\n", "\r\n").encode(), expected, "log.txt")


def test_coloured(log, tmp_path):
    text, expected = log
    lines = [f"\x1b[1;32m{line}\x1b[0m" for line in text.split("\n")]
    check(tmp_path, "\n".join(lines).encode(), expected, "log.txt")


PREFIXES = {
    "torchrun": lambda i: "[rank0]:",
    "torchrun default": lambda i: "[default3]:",
    "srun": lambda i: "0: ",
    "mpirun": lambda i: "[1,0]<stdout>:",
    "iso": lambda i: f"2025-04-01T10:{i // 60 % 60:02d}:{i % 60:02d}.123456Z ",
    "iso space": lambda i: f"2025-04-01 10:{i // 60 % 60:02d}:{i % 60:02d} ",
    "bracketed": lambda i: f"[2025-04-01 10:{i // 60 % 60:02d}:{i % 60:02d}] ",
    "cri": lambda i: f"2025-04-01T10:{i // 60 % 60:02d}:{i % 60:02d}.123456789Z stdout F ",
    "syslog": lambda i: f"Apr  1 10:{i // 60 % 60:02d}:{i % 60:02d} node-17 train[812]: ",
    "pdsh": lambda i: "node017: ",
    "quote": lambda i: "> ",
    "ray": lambda i: "(RayTrainWorker pid=4321, ip=10.1.2.3) ",
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixed(log, tmp_path, prefix):
    text, expected = log
    put = PREFIXES[prefix]
    lines = [put(i) + line if line.strip() else line for i, line in enumerate(text.split("\n"))]
    check(tmp_path, "\n".join(lines).encode(), expected, "log.txt")


def test_shipped_as_json(log, tmp_path):
    text, expected = log
    lines = [
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-04-01T10:00:00.1Z"})
        for line in text.split("\n")
    ]
    check(tmp_path, "\n".join(lines).encode(), expected, "log.txt")


def test_between_lines_of_no_interest(log, tmp_path):
    text, expected = log
    chatter = [
        "INFO: saving took a while", "warning: something happened at 10:20:30", "",
        "NCCL INFO Channel 00/04 :    0   1   2   3", "    return forward_call(*args, **kwargs)",
        "memory usage is fine", "[2025-04-01 10:00:00] heartbeat",
    ]  # fmt: skip
    rng = random.Random(1)
    lines = []
    for line in text.split("\n"):
        if not line[:1].isspace() and rng.random() < 0.3:
            lines.append(rng.choice(chatter))
        lines.append(line)
    check(tmp_path, "\n".join(lines).encode(), expected, "log.txt")


def test_two_ranks_interleaved(log, tmp_path):
    """Every rank writes every line; rank 1 lags by up to three lines."""
    text, expected = log
    waiting: list[str] = []
    lines = []
    rng = random.Random(2)
    for line in text.split("\n"):
        lines.append(f"[rank0]:{line}")
        waiting.append(f"[rank1]:{line}")
        while len(waiting) > rng.randint(0, 3):
            lines.append(waiting.pop(0))
    check(tmp_path, "\n".join([*lines, *waiting]).encode(), expected, "log.txt")


@pytest.mark.parametrize("share", [0.31, 0.5, 0.77])
def test_cut_anywhere(log, tmp_path, share):
    """What is read of a log that is cut is what its whole lines say."""
    text, _ = log
    cut = text[: int(len(text) * share)]
    whole = cut[: cut.rfind("\n") + 1]
    (tmp_path / "whole").write_text(whole, newline="")
    (tmp_path / "cut").write_text(cut, newline="")
    try:
        before = table(tmp_path / "whole")
    except LogError:
        return
    after = table(tmp_path / "cut")
    rows = before["step"].to_list()
    assert (
        after.filter(pl.col("step").is_in(rows[:-1]))
        .select(before.columns)
        .equals(before.filter(pl.col("step").is_in(rows[:-1])), null_equal=True)
    )


@pytest.fixture(params=DOCUMENTS)
def document(request, tmp_path):
    content = (REAL / request.param).read_bytes()
    path = tmp_path / "plain"
    path.write_bytes(content)
    return content, table(path)


@pytest.mark.parametrize("packing", PACKINGS)
def test_packed_document(document, tmp_path, packing):
    content, expected = document
    check(tmp_path, PACKINGS[packing](content), expected, "document.bin")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_document_in_another_encoding(document, tmp_path, encoding):
    content, expected = document
    check(tmp_path, content.decode().encode(encoding), expected, "document.bin")


def test_document_with_crlf(document, tmp_path):
    content, expected = document
    unix = content.replace(b"\r\n", b"\n")
    check(tmp_path, unix.replace(b"\n", b"\r\n"), expected, "document.bin")

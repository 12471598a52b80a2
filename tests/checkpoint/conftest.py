import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from surefoot.checkpoint import CheckpointStore
from surefoot.checkpoint.manifest import MANIFEST, FileEntry, read_manifest, sha256_of

Tensors = dict[str, Tensor]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def store(root: Path) -> CheckpointStore:
    return CheckpointStore(root, keep_newest=2, interval=10)


@pytest.fixture
def make_tensors() -> Callable[[int], Tensors]:
    """Tensors of every kind a run has, different for each seed."""

    def make(seed: int) -> Tensors:
        g = torch.Generator().manual_seed(seed)
        weight = torch.randn(6, 5, generator=g)
        weight[0, 0], weight[0, 1], weight[0, 2] = float("nan"), float("inf"), -0.0
        return {
            "model.a.weight": weight,
            "model.half": torch.randn(7, generator=g).bfloat16(),
            "model.transposed": torch.randn(4, 3, generator=g).t(),
            "model.slice": torch.randn(10, generator=g)[2:5],
            "optimizer.a.weight.step": torch.tensor(float(seed)),
            "random.rank0.torch": torch.randint(0, 256, (40,), dtype=torch.uint8, generator=g),
            "extra.count": torch.tensor([seed], dtype=torch.int64),
            "extra.empty": torch.empty(0, 3),
        }

    return make


@pytest.fixture
def bits_equal() -> Callable[[Tensors, Tensors], bool]:
    """Equality of every bit, NaN payloads and signs of zero included."""

    def bits(tensor: Tensor) -> bytes:
        return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()

    def equal(a: Tensors, b: Tensors) -> bool:
        return a.keys() == b.keys() and all(
            a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and bits(a[k]) == bits(b[k])
            for k in a
        )

    return equal


@pytest.fixture
def reseal() -> Callable[[Path], None]:
    """Make the manifest valid again after the files of a checkpoint were changed."""

    def seal(folder: Path) -> None:
        names = [path.name for path in folder.iterdir() if path.name != MANIFEST]
        files = {
            name: FileEntry(size=(folder / name).stat().st_size, sha256=sha256_of(folder / name))
            for name in names
        }
        manifest = dataclasses.replace(read_manifest(folder), files=files)
        (folder / MANIFEST).write_bytes(manifest.encode())

    return seal


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a script in a fresh interpreter, warnings being errors."""

    def run(
        script: str, *arguments: object, crash_at: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("SUREFOOT_CRASH_AT", None)
        if crash_at is not None:
            environment["SUREFOOT_CRASH_AT"] = crash_at
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run

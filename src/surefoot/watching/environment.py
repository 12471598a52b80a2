"""What a run finds around it: versions, devices, flags, git commit; written to environment.json.

What changes between two starts of a run is told: bit equality holds on the same ground only.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from surefoot import __version__, runs

_PACKAGES = (
    "torch", "numpy", "polars", "pydantic", "tokenizers", "safetensors", "transformers",
    "triton", "flash-attn", "transformer-engine", "nvidia-nccl-cu12",
)  # fmt: skip

# Variables that change numbers or speed. Only these are recorded: an environment holds secrets.
_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS", "NVIDIA_TF32_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "WORLD_SIZE", "OPENBLAS_CORETYPE",
)  # fmt: skip


_GROUND = ("python", "packages", "device", "processor", "threads", "world_size", "variables")
"""Of the environment: what bit equality rests on."""


def fingerprint(device: torch.device, world: int = 1) -> dict[str, Any]:
    """The environment as JSON values.

    Args:
        device: where the model is.
        world: number of processes.
    """
    on_gpu = device.type == "cuda"
    return {
        "surefoot": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "cuda": torch.version.cuda,
        "driver": _driver() if on_gpu else None,
        "world_size": world,
        "threads": torch.get_num_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "git": _git(),
        "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
    }


def note_changes(writer: runs.RunWriter, now: Mapping[str, Any]) -> tuple[str, ...]:
    """Put what differs from when the run was started into its ledger.

    Args:
        writer: of the run that goes on.
        now: of :func:`fingerprint`.

    Returns:
        The names of what bit equality rests on and that differs; empty if nothing does or it is
        not known how it was (reading the run reports that).
    """
    try:
        before = runs.read_environment(writer.folder)
    except (OSError, ValueError):
        return ()
    changed = {
        name: [before[name], now[name]]
        for name in _GROUND
        if name in before and before[name] != now[name]
    }
    if changed:
        writer.ledger.append("environment", step=writer.last_step, changed=changed)
    return tuple(changed)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # Not Linux: the platform module's word is the best there is.
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[0].strip() or None


def _git() -> dict[str, Any] | None:
    """Commit of the working directory and whether it has changes; None outside a checkout."""

    def ask(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *arguments], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "changed": bool(ask("status", "--porcelain", "-uno"))}

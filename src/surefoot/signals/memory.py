"""Peak memory, cheaply."""

import sys
from importlib import import_module
from typing import Any

import torch

_resource: Any = None if sys.platform == "win32" else import_module("resource")


def peak_memory(device: torch.device | str) -> float:
    """Peak memory so far, in bytes.

    On CUDA the most that tensors took at once (``max_memory_allocated``); else the largest resident
    set of this process since it started. NaN where the system does not tell.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if _resource is None:
        return float("nan")
    peak: float = _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Counter(TorchDispatchMode):
    """Names of the operations that reached the device."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    @property
    def syncs(self):
        return [n for n in self.names if n in ("_local_scalar_dense", "item", "equal", "nonzero")]


@pytest.fixture
def counter():
    return _Counter


@pytest.fixture
def parameters():
    """Fresh parameters of several shapes, the same at each call, and gradients for a step."""

    def make(dtype=torch.float32):
        generator = torch.Generator().manual_seed(0)
        shapes = [(40, 33), (70,), (3, 5, 7), (1,)]
        return [
            torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in shapes
        ]

    return make


@pytest.fixture
def set_gradients():
    def fill(parameters, step, scale=1.0):
        generator = torch.Generator().manual_seed(100 + step)
        for p in parameters:
            p.grad = (scale * torch.randn(p.shape, generator=generator)).to(p.dtype)

    return fill

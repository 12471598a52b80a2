"""Small models, exact references, and a count of what tensor operations do."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Count(TorchDispatchMode):
    """Counts operations, and the bytes of storage that they make.

    ``bytes`` adds up everything made, freed or not: an upper bound of temporary memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        given = {_storage(t) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        made = {
            _storage(t): t.untyped_storage().nbytes()
            for t in tree_leaves(result)
            if isinstance(t, Tensor)
        }
        self.bytes += sum(size for key, size in made.items() if key not in given)
        return result

    @property
    def total(self) -> int:
        return sum(self.calls.values())


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


@pytest.fixture(scope="session")
def count() -> type[Count]:
    return Count


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _toy() -> nn.Module:
    """Five parameters of unlike sizes: an embedding (12, 6), two linears with bias."""
    return nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 12))


@pytest.fixture
def toy() -> nn.Module:
    return _toy()


def _backward(model: nn.Module, rows: int = 9) -> Tensor:
    """A gradient that differs from call to call; returns the loss. Tokens 0 to 7 only occur."""
    dtype = next(model.parameters()).dtype
    tokens = torch.randint(0, 8, (rows,))
    loss = nn.functional.cross_entropy(model(tokens).to(dtype), (tokens * 3 + 1) % 12)
    loss.backward()
    return loss.detach()


@pytest.fixture(scope="session")
def backward() -> Callable[..., Tensor]:
    return _backward


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices and the rest, with unlike settings."""
    named = list(model.named_parameters())
    return [
        {"params": [p for n, p in named if "0." not in n and p.ndim == 2], "weight_decay": 0.1},
        {"params": [p for n, p in named if "0." in n], "weight_decay": 0.0, "lr": 3e-3},
        {"params": [p for n, p in named if p.ndim < 2], "weight_decay": 0.02, "eps": 1e-4},
    ]


@pytest.fixture(scope="session")
def groups() -> Callable[[nn.Module], list[dict[str, Any]]]:
    return _groups

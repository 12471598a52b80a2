"""The trainable parameters of a model, each once, and the norms of tensors shaped like them."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from surefoot.errors import UsageError

CHUNK_ON_CPU = 2**16
"""Elements a norm is taken over at once on a CPU. There torch adds squares in float32 one after the
other, which is 4e-4 off at 10^7 elements; chunks of this size are 4e-7 off and stay in the cache,
for about a tenth more time."""

CHUNK_ON_DEVICE = 2**24
"""The same elsewhere, where norms are tree sums: it only bounds the scratch of sampled signals."""


class Parameters:
    """The trainable parameters of a model, in the order of ``named_parameters``.

    Tied parameters come once, under their first name; frozen ones not at all. The prefixes that
    ``DistributedDataParallel`` and ``torch.compile`` put before names are left out.

    A large tensor is cut into chunks; what is measured of a tensor is one value a chunk, put
    together on the host by :meth:`root_sum_square` and :meth:`total`.

    Attributes:
        names: one a parameter.
        tensors: the parameters.
        sizes: elements of each, float64 (P,).
        counts: chunks of each.
        chunk: elements of a chunk.
        device: where all of them lie.
        dtype: what is measured in: float32, or float64 if a parameter is.

    Raises:
        UsageError: if the model has no trainable parameter, or has them on several devices or
            sharded.
    """

    def __init__(self, model: nn.Module, chunk: int | None = None) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise UsageError(
                f"{type(model).__name__} has no trainable parameter: pass the model that is "
                "trained, with requires_grad set"
            )
        devices = sorted({str(p.device) for _, p in named})
        if len(devices) > 1:
            raise UsageError(
                f"signals are measured on one device, got parameters on {', '.join(devices)}: "
                "move the model to one"
            )
        # Known by its mesh: importing the class takes most of a second.
        if any(hasattr(p, "device_mesh") for _, p in named):
            raise UsageError(
                "signals are measured on whole parameters, got sharded ones (DTensor): "
                "use DistributedDataParallel"
            )
        self.names = tuple(plain_name(name) for name, _ in named)
        self.tensors: list[Tensor] = [p for _, p in named]
        self.device = named[0][1].device
        dtypes = [p.dtype for p in self.tensors]
        self.dtype = reduce(torch.promote_types, dtypes, torch.float32)
        if chunk is None:
            chunk = CHUNK_ON_CPU if self.device.type == "cpu" else CHUNK_ON_DEVICE
        self.chunk = chunk
        self.sizes: npt.NDArray[np.float64] = np.array([p.numel() for p in self.tensors], float)
        self.counts = [max(1, -(-p.numel() // chunk)) for p in self.tensors]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        self._zero = torch.zeros((), device=self.device, dtype=self.dtype)

    def __len__(self) -> int:
        return len(self.tensors)

    def pieces(self, index: int, tensor: Tensor) -> Sequence[Tensor]:
        """The chunks of ``tensor``, which is shaped like parameter ``index``, as views.

        Only a tensor whose elements do not lie in order is copied.
        """
        if self.counts[index] == 1:
            return (tensor,)
        return torch.split(tensor.reshape(-1), self.chunk)

    def norms(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """L2 norms in ``dtype``, one a chunk (C,), by one fused call; 0 where a tensor is None."""
        pieces: list[Tensor] = []
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                pieces += self.pieces(index, tensor)
        # Without a dtype the norms of bf16 tensors would be bf16 numbers.
        norms = list(torch._foreach_norm(pieces, 2, dtype=self.dtype)) if pieces else []
        for index, tensor in enumerate(tensors):
            if tensor is None:
                at = int(self._starts[index])
                norms[at:at] = [self._zero] * self.counts[index]
        return torch.stack(norms)

    def total(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sums over the chunks of each parameter: (C,) to (P,)."""
        return np.add.reduceat(values, self._starts)

    def root_sum_square(self, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Norms of the parameters from norms of their chunks: (C,) to (P,)."""
        return np.sqrt(self.total(norms**2))


def plain_name(name: str) -> str:
    """A parameter's name in the bare model, e.g. without ``module.`` of DistributedDataParallel."""
    name = name.replace("_orig_mod.", "")
    return name.removeprefix("module.")

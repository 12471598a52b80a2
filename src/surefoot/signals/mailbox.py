"""Numbers that go from the device to the host without anyone waiting for them."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

T = TypeVar("T")
Arrays = dict[str, npt.NDArray[np.float64]]


class Mailbox(Generic[T]):
    """Holds one message: named vectors that were on the device, and a note that was not.

    :meth:`send` packs the vectors into one and only starts its copy to the host (on CUDA to pinned
    memory). :meth:`receive`, called a step later, finds it there: it waits for the event after that
    copy, which is long past, and reads the host memory through numpy. No tensor operation reads a
    value.

    Args:
        device: where the vectors are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Counts are exact up to 2^53 in float64; Apple's devices have none.
        self.dtype = torch.float32 if device.type == "mps" else torch.float64
        self._buffer: Tensor | None = None
        self._array: npt.NDArray[Any] = np.empty(0)
        self._layout: list[tuple[str, int]] = []
        self._note: T | None = None
        self._copied: torch.cuda.Event | None = None

    @property
    def full(self) -> bool:
        """Whether a message waits."""
        return self._note is not None

    @property
    def arrived(self) -> bool:
        """Whether a message can be received without waiting for the device."""
        return self.full and (self._copied is None or bool(self._copied.query()))  # type: ignore[no-untyped-call]

    def send(self, parts: Sequence[tuple[str, Tensor]], note: T) -> None:
        """Start a message on its way; the one before must have been received.

        Args:
            parts: vectors by name, in order; of any number type.
            note: what the receiver needs beside them.
        """
        assert not self.full, "the message before has not been received"
        self._layout = [(name, part.numel()) for name, part in parts]
        self._note = note
        size = sum(length for _, length in self._layout)
        if not size:
            return
        buffer = self._sized(size)[:size]
        vectors = [part.reshape(-1) for _, part in parts]
        if self._device.type == "cpu":
            torch.cat([v.to(self.dtype) for v in vectors], out=buffer)
            return
        packed = torch.cat([v.to(self.dtype) for v in vectors])
        buffer.copy_(packed, non_blocking=self._device.type == "cuda")
        if self._device.type == "cuda":
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record(torch.cuda.current_stream(self._device))

    def receive(self) -> tuple[Arrays, T] | None:
        """The message sent before, or None."""
        if self._note is None:
            return None
        if self._copied is not None:
            self._copied.synchronize()
            self._copied = None
        arrays: Arrays = {}
        start = 0
        for name, length in self._layout:
            arrays[name] = self._array[start : start + length].astype(np.float64)
            start += length
        note, self._note = self._note, None
        return arrays, note

    def _sized(self, size: int) -> Tensor:
        if self._buffer is None or self._buffer.numel() < size:
            pinned = self._device.type == "cuda"
            self._buffer = torch.empty(size, dtype=self.dtype, pin_memory=pinned)
            self._array = self._buffer.numpy()
        return self._buffer

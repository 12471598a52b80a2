"""One bit of memory turned over: silent data corruption in its smallest form."""

import torch
from torch import Tensor

from surefoot.errors import UsageError

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def flip_bit(tensor: Tensor, index: int, bit: int) -> tuple[float, float]:
    """Turn over one bit of one element, in place.

    In fp32 bit 31 is the sign, 30 to 23 the exponent (30 the highest: it turns an ordinary weight
    into about 1e38), 22 to 0 the mantissa; in bf16 15, 14 to 7 and 6 to 0; in fp16 15, 14 to 10
    and 9 to 0.

    Args:
        tensor: of any floating dtype; a parameter, a moment of an optimizer, a gradient.
        index: of the element, in order of memory.
        bit: counted from the lowest, 0.

    Returns:
        The element before and after.

    Raises:
        UsageError: if there is no such element or bit, or the tensor is not of floats.

    Source: Dixit et al. 2021, 2102.11245, on silent data corruption in a fleet.
    """
    bits = 8 * tensor.element_size()
    if not tensor.is_floating_point():
        raise UsageError(f"flip_bit turns over bits of floats, got {tensor.dtype}")
    if not 0 <= bit < bits:
        raise UsageError(f"{bit=}: {tensor.dtype} has bits 0 to {bits - 1}")
    if not 0 <= index < tensor.numel():
        raise UsageError(f"{index=}: the tensor has elements 0 to {tensor.numel() - 1}")
    if not tensor.is_contiguous():
        raise UsageError("flip_bit needs a contiguous tensor: pass tensor.contiguous()")
    integers = _INTEGERS[tensor.element_size()]
    flat = tensor.detach().reshape(-1)
    raw = flat.view(integers)
    before = float(flat[index])
    # The highest bit alone is the lowest negative number of its integer type.
    mask = -(1 << bit) if bit == bits - 1 else 1 << bit
    raw[index] = torch.bitwise_xor(
        raw[index], torch.tensor(mask, dtype=integers, device=raw.device)
    )
    return before, float(flat[index])

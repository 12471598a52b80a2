"""8-bit floats emulated on any device, with scales that may be out of date.

Values are scaled, clamped, rounded to the 8-bit format and brought back, all in the format that
they came in: what is lost is what real fp8 training loses, at none of its speed.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError

Format = Literal["e4m3", "e5m2"]
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
_DTYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def fake_fp8(tensor: Tensor, scale: float | Tensor = 1.0, format: Format = "e4m3") -> Tensor:
    """``tensor`` rounded to an 8-bit float, back in its own dtype.

    Args:
        tensor: any floating dtype.
        scale: factor before rounding; a good one brings the largest absolute value near 448 (e4m3)
            or 57344 (e5m2). Too large: values saturate. Too small: they round to 0.
        format: ``e4m3`` for weights and activations, ``e5m2`` for gradients.

    Raises:
        UsageError: for an unknown format.

    Source: Micikevicius et al. 2022, 2209.05433.
    """
    if format not in LARGEST:
        raise UsageError(f"unknown format {format!r}: expected {', '.join(LARGEST)}")
    limit = LARGEST[format]
    # Without the clamp e5m2 rounds to infinity, and e4m3 to NaN.
    scaled = (tensor.float() * scale).clamp(-limit, limit)
    return (scaled.to(_DTYPES[format]).float() / scale).to(tensor.dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, scales: tuple[float, float, float]) -> Tensor:
        q_x, q_weight = fake_fp8(x, scales[0]), fake_fp8(weight, scales[1])
        ctx.save_for_backward(q_x, q_weight)
        ctx.scale = scales[2]
        return q_x @ q_weight.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        q_x, q_weight = ctx.saved_tensors
        # Under autocast input, weight and output may be of three formats.
        q_grad = fake_fp8(grad, ctx.scale, "e5m2").float()
        dx = q_grad @ q_weight.float()
        dw = q_grad.flatten(0, -2).T @ q_x.float().flatten(0, -2)
        return dx.to(q_x.dtype), dw.to(q_weight.dtype), None


@contextlib.contextmanager
def fp8_linears(
    modules: Iterable[nn.Linear],
    *,
    input_scale: float = 16.0,
    weight_scale: float = 256.0,
    grad_scale: float = 2.0**16,
) -> Iterator[None]:
    """Run linear layers without bias in emulated fp8, forward and backward, with fixed scales.

    Scales that fitted once and are never renewed are the fault: as weights and activations grow
    they saturate, as gradients shrink they vanish.

    Args:
        modules: the layers, e.g. all ``nn.Linear`` of a model but its head.
        input_scale: of the activations (e4m3).
        weight_scale: of the weights (e4m3).
        grad_scale: of the output's gradient (e5m2).

    Raises:
        UsageError: if a layer has a bias.
    """
    changed = list(modules)
    scales = (input_scale, weight_scale, grad_scale)
    for module in changed:
        if module.bias is not None:
            raise UsageError("fp8_linears emulates layers without bias, got one with a bias")

    def quantised(module: nn.Linear) -> Any:
        return lambda x: _Linear.apply(x, module.weight, scales)  # type: ignore[no-untyped-call]

    for module in changed:
        module.forward = quantised(module)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in changed:
            del module.forward  # the method of the class shows again

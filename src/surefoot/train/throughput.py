"""Model FLOPs and, where the peak of the device is known, how much of it a run uses (MFU)."""

from surefoot.recipe import Architecture

# Dense bf16/fp16 peaks in FLOP/s, by a part of the device's name (vendors' data sheets).
_PEAKS = (
    ("H200", 989e12), ("H100 PCIe", 756e12), ("H100", 989e12), ("A100", 312e12), ("A800", 312e12),
    ("H800", 989e12), ("B200", 2250e12), ("L40S", 362e12), ("RTX 4090", 165e12), ("V100", 125e12),
)  # fmt: skip


def flops_per_token(a: Architecture) -> float:
    """Forward and backward FLOPs for one token: 6 P + 6 N h dh s.

    P counts the matrices that multiply (head included, embedding not); the attention term is halved
    since half of the scores are masked (Chowdhery et al. 2022, 2204.02311, appendix B).
    """
    keys = a.key_value_heads * a.head_size
    attention = a.width * (2 * a.width + 2 * keys)
    feed_forward = (3 if a.activation == "swiglu" else 2) * a.width * a.inner_width
    matrices = a.layers * (attention + feed_forward) + a.vocab_size * a.width
    return 6.0 * matrices + 6.0 * a.layers * a.width * a.sequence_length


def peak_flops(device_name: str, precision: str) -> float | None:
    """Peak of the device for 16-bit products; None where it is not known, as for CPUs and fp32."""
    if precision == "fp32":
        return None
    return next((peak for part, peak in _PEAKS if part in device_name), None)


def mfu(
    tokens_per_second: float, a: Architecture, peak: float | None, devices: int
) -> float | None:
    """Model FLOPs utilisation, 0 to 1; None where the peak is not known."""
    if peak is None:
        return None
    return tokens_per_second * flops_per_token(a) / (peak * devices)

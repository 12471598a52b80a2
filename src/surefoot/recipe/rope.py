"""How far rotary positions reach: wavelengths against the length of a sequence.

::

    longest_wavelength(head_size=128, theta=5e5)         # 2.6 million tokens
    share_beyond(head_size=128, theta=5e5, length=2048)  # 0.55: over half never turn once

Source: Su et al. 2021, 2104.09864.
"""

import math


def wavelengths(head_size: int, theta: float) -> list[float]:
    """Tokens in which each pair of channels turns once, 2 pi theta^(2i/head_size), ascending.

    Args:
        head_size: channels of a head, even.
        theta: base of the frequencies.

    Raises:
        ValueError: if the head size is odd or less than 2, or theta is not positive.
    """
    if head_size < 2 or head_size % 2 or not theta > 0:
        raise ValueError(
            f"head_size = {head_size}, theta = {theta}: expected an even head size and a positive "
            "theta"
        )
    found = [2 * math.pi * theta ** (2 * i / head_size) for i in range(head_size // 2)]
    return sorted(found)


def longest_wavelength(head_size: int, theta: float) -> float:
    """Tokens in which the slowest pair of channels turns once; errors as :func:`wavelengths`."""
    return wavelengths(head_size, theta)[-1]


def share_beyond(head_size: int, theta: float, length: int) -> float:
    """Share of the channels that do not turn once in a training sequence, 0 to 1.

    They see a part of their circle only: positions beyond it are new to them, and within it they
    hardly tell one position from the next.

    Args:
        head_size: channels of a head, even.
        theta: base of the frequencies.
        length: tokens of a training sequence.

    Raises:
        ValueError: as :func:`wavelengths`.
    """
    found = wavelengths(head_size, theta)
    return sum(wavelength > length for wavelength in found) / len(found)

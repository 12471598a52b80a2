import math

import pytest
import torch

from surefoot.model import longest_wavelength, rope_tables, share_beyond
from surefoot.recipe.rope import wavelengths


@pytest.mark.parametrize("theta", [10000.0, 37.0, 1.0, 0.5])
def test_wavelengths_are_those_of_the_tables(theta):
    found = wavelengths(8, theta)
    assert found == sorted(found)
    cos, sin = rope_tables(2, 8, theta, torch.device("cpu"))
    angles = torch.atan2(sin[1], cos[1]).double()  # of one position
    assert sorted((2 * math.pi / angles).tolist()) == pytest.approx(found, rel=1e-5)
    assert longest_wavelength(8, theta) == found[-1]


def test_the_figures_of_a_long_theta_on_short_sequences():
    # theta 5e5 at 2048 tokens: a report of a 38B model suspected it, in vain.
    assert longest_wavelength(128, 5e5) == pytest.approx(2.559e6, rel=1e-3)
    assert share_beyond(128, 5e5, 2048) == 35 / 64
    assert share_beyond(128, 1e4, 2048) == pytest.approx(0.375, abs=0.05)
    assert share_beyond(128, 1e4, 10**6) == 0
    assert share_beyond(2, 1e4, 6) == 1  # a wavelength of 2 pi
    assert share_beyond(2, 1e4, 7) == 0


@pytest.mark.parametrize(("size", "theta"), [(0, 1e4), (5, 1e4), (8, 0.0), (8, math.nan)])
def test_refused(size, theta):
    with pytest.raises(ValueError, match="expected an even head size and a positive theta"):
        longest_wavelength(size, theta)

import math

import pytest
import torch

from surefoot.optim import clip_factor


@pytest.mark.parametrize("norm", [0.0, 1e-9, 0.5, 1.0, 1.0 + 1e-5, 3.0, 1e18])
@pytest.mark.parametrize("clip", [1.0, 0.01])
def test_is_that_of_torch(norm, clip):
    parameter = torch.nn.Parameter(torch.zeros(4))
    parameter.grad = torch.tensor([norm, 0.0, 0.0, 0.0])
    total = torch.nn.utils.clip_grad_norm_([parameter], clip)
    factor = clip_factor(total, clip)
    assert factor.ndim == 0
    assert 0 < factor <= 1
    assert torch.equal(torch.tensor(norm) * factor, parameter.grad[0])


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_leaves_alone_what_is_not_finite(norm):
    assert clip_factor(torch.tensor(norm), 1.0) == 1


def test_zero_is_off(counter):
    assert clip_factor(torch.tensor(1e9), 0.0) == 1
    with counter() as count:
        clip_factor(torch.tensor(5.0), 1.0)
    assert not count.syncs
